"""Products of known primes: the factors are drawn first, so nothing is factorised here."""

import random

from deepgym.compare import text_of
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # decide primality below 3.3e24 (Sorenson, Webster 2015)


def is_prime(number: int) -> bool:
    if number < 2 or any(number % prime == 0 for prime in WITNESSES):
        return number in WITNESSES
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in WITNESSES:
        power = pow(witness, odd, number)
        if power not in (1, number - 1) and all(
            (power := power * power % number) != number - 1 for _ in range(twos - 1)
        ):
            return False
    return True


def prime_near(rng: random.Random, size: int) -> int:
    number = rng.randint(size // 2, size) | 1
    while not is_prime(number):
        number += 2
    return number


def case(name: str, group: str, lists: list[list[int]], hidden: bool = True) -> Case:
    numbers = []
    for factors in lists:
        number = 1
        for factor in factors:
            number *= factor
        numbers.append(number)
    expected = "".join(" ".join(map(str, sorted(factors))) + "\n" for factors in lists)
    return Case(name, expected, stdin="".join(f"{n}\n" for n in numbers).encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [case("example 1", "small", [[2, 2, 3], [97], [7, 11]], hidden=False)]


def cases(rng: random.Random) -> list[Case]:
    primes = [number for number in range(2, 200) if is_prime(number)]
    made = []
    for i in range(4):
        lists = [[rng.choice(primes[:12]) for _ in range(rng.randint(1, 5))] for _ in range(8)]
        made.append(case(f"small {i}", "small", lists))
    prime = rng.choice(primes)
    made += [
        case("one", "edges", [[], [2]]),
        case("powers of two", "edges", [[2] * rng.randint(30, 59), [2] * 10]),
        case("square of a prime", "edges", [[prime, prime], [9973, 9973]]),
        case("cube of a prime", "edges", [[9973] * 3]),
        case("prime and its neighbour", "edges", [[999983], [2, 2, 3, 3, 3, 3, 3], [10**9 + 7]]),
        case("cube and square", "edges", [[101, 101, 101, 103, 103]]),
    ]
    half = [[prime_near(rng, 9 * 10**8), prime_near(rng, 9 * 10**8)] for _ in range(3)]
    squares = [[large, large] for large in (prime_near(rng, 9 * 10**8),)]
    made += [
        case("large, two primes", "large", half + squares),
        case("large primes", "large", [[prime_near(rng, 9 * 10**17)] for _ in range(4)]),
        case("three primes", "large", [[prime_near(rng, 9 * 10**5) for _ in range(3)] for _ in range(4)]),
        case(
            "two among large primes",
            "large",
            [[2, 2, prime_near(rng, 10**9)], [2, prime_near(rng, 9 * 10**10)], [], [2]],
        ),
        case("many", "large", [[prime_near(rng, 10**6), prime_near(rng, 10**5)] for _ in range(40)]),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    # An empty line is an answer here (for 1), so only the last line's end may be missing.
    got = [line.rstrip() for line in text_of(outcome.stdout).removesuffix("\n").split("\n")]
    return got == case.expected.removesuffix("\n").split("\n")
