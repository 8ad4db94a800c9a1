"""Ledger commands; the oracle keeps every booking as a list of changes and undoes by negating them."""

import random

from deepgym.compare import same_lines
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def run(commands: list[str]) -> str:
    balance: dict[str, int] = {}
    bookings: list[list[tuple[str, int]]] = []
    printed: list[str] = []
    for command in commands:
        word, *rest = command.split()
        changes: list[tuple[str, int]] = []
        result = "ok"
        if word == "undo":
            changes = [(name, -amount) for name, amount in bookings.pop()] if bookings else []
            result = "ok" if changes else "nothing"
        elif word == "open":
            result = "exists" if rest[0] in balance else "ok"
            balance.setdefault(rest[0], 0)
        elif any(name not in balance for name in (rest[:2] if word == "transfer" else rest[:1])):
            result = "unknown"
        elif word == "balance":
            result = str(balance[rest[0]])
        elif word != "deposit" and balance[rest[0]] < int(rest[-1]):
            result = "refused"
        else:
            amount = int(rest[-1])
            changes = [(rest[0], amount if word == "deposit" else -amount)]
            changes += [(rest[1], amount)] if word == "transfer" else []
            bookings.append(changes)
        for name, amount in changes:
            balance[name] += amount
        printed.append(result)
    return "".join(f"{line}\n" for line in printed)


def case(name: str, group: str, commands: list[str], hidden: bool = True) -> Case:
    stdin = "".join(f"{command}\n" for command in commands)
    return Case(name, run(commands), stdin=stdin.encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    commands = ["open ann", "deposit ann 10", "withdraw ann 12", "undo", "balance ann", "undo"]
    return [case("example 1", "small", commands, hidden=False)]


def draw(rng: random.Random, names: list[str], count: int) -> list[str]:
    commands = [f"open {name}" for name in names[1:]]
    words = ["deposit", "deposit", "withdraw", "transfer", "transfer", "balance", "undo", "open"]
    for _ in range(count):
        word, first, second = rng.choice(words), rng.choice(names), rng.choice(names)
        amount = rng.randint(1, 100)
        commands.append(
            {"undo": "undo", "open": f"open {first}", "balance": f"balance {first}"}.get(word)
            or (f"transfer {first} {second} {amount}" if word == "transfer" else f"{word} {first} {amount}")
        )
    return [*commands, *(f"balance {name}" for name in names)]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", draw(rng, ["ann", "bob", "cid"], 25)) for i in range(5)]
    amount = rng.randint(5, 50)
    paid = ["open a", "open b", f"deposit a {amount}"]
    made += [
        case("exact withdrawal", "edges", [*paid, f"withdraw a {amount}", "withdraw a 1", "balance a"]),
        case("undo below zero", "edges", [*paid, "undo", f"deposit a {amount}", f"transfer a b {amount}", "undo",
                                          "undo", "undo", "balance a", "balance b"]),
        case("spent, then undone", "edges", [*paid, f"withdraw a {amount}", "undo", "balance a", "undo", "balance a"]),
        case("transfer to itself", "edges", [*paid, f"transfer a a {amount}", f"transfer a a {amount + 1}"]),
        case("undo of a refusal", "edges", [*paid, f"withdraw a {amount + 1}", "undo", "balance a", "undo"]),
        case("unknown before refused", "edges", [*paid, f"transfer a x {amount + 1}", f"transfer x a {amount}"]),
    ]  # fmt: skip
    names = [f"acc{i}" for i in range(40)]
    undone = [*paid, *["deposit a 3", "withdraw a 1"] * 6_000, *["undo"] * 12_000, "balance a"]
    made += [case("large", "large", draw(rng, names, 25_000)), case("large undo", "large", undone)]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return same_lines(outcome.stdout, case.expected)
