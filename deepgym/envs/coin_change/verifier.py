"""Fewest coins; the oracle keeps the sums reachable with exactly k coins as the bits of one integer."""

import random

from deepgym.compare import is_int
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def fewest(coins: list[int], amount: int) -> int:
    full = (1 << (amount + 1)) - 1
    reachable = seen = 1
    for count in range(amount + 1):
        if reachable >> amount & 1:
            return count
        step = 0
        for coin in coins:
            step |= reachable << coin
        reachable = step & full & ~seen
        seen |= reachable
    return -1


def case(name: str, group: str, coins: list[int], amount: int, hidden: bool = True) -> Case:
    return Case(name, fewest(coins, amount), args=(coins, amount), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", [1, 2, 5], 11, hidden=False),
        case("example 2", "small", [2], 3, hidden=False),
    ]


def cases(rng: random.Random) -> list[Case]:
    made = [
        case(f"small {i}", "small", rng.sample(range(1, 12), rng.randint(2, 4)), rng.randint(5, 40)) for i in range(8)
    ]
    even = [2 * value for value in rng.sample(range(2, 30), 3)]
    made += [
        case("nothing to pay", "edges", [7, 3], 0),
        case("one coin, exactly", "edges", [rng.randint(5, 50)] * 1, 0),
        case("coin equals amount", "edges", [4, 9, 13], 13),
        case("all coins too large", "edges", [50, 80], rng.randint(1, 49)),
        case("parity", "edges", even, 2 * rng.randint(40, 90) + 1),
        case("greedy is wrong", "edges", [1, 10, 25], 25 * rng.randint(1, 3) + 5 + 10),
    ]
    for i in range(5):
        coins = [rng.randint(3, 30), *rng.sample(range(40, 900), 4)]
        made.append(case(f"large {i}", "large", coins, rng.randint(1500, 2500)))
    made += [
        case("large, coins of 1", "large", [1], rng.randint(300, 400)),
        case("large, parity", "large", even, 2 * rng.randint(200, 400) + 1),
        case("large, close coins", "large", [11, 13, 12, 5, 1, 4], rng.randint(300, 600)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return is_int(outcome.value) and outcome.value == case.expected
