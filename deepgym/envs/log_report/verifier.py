"""Log reports; statuses, bytes and paths are counted while the log is written."""

import random
from collections import Counter

from deepgym.compare import stdout_is
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Line = tuple[str, str, str, int, int]


def case(name: str, group: str, lines: list[Line], hidden: bool = True) -> Case:
    statuses = Counter(line[3] for line in lines)
    paths = Counter(line[2] for line in lines)
    rows = [f"{status} {statuses[status]}" for status in sorted(statuses)]
    rows.append(f"bytes {sum(line[4] for line in lines)}")
    if paths:
        top = min(paths, key=lambda path: (-paths[path], path.encode()))
        rows.append(f"top {top} {paths[top]}")
    log = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    expected = "".join(f"{row}\n" for row in rows)
    return Case(name, expected, files={"access.log": log.encode()}, group=group, hidden=hidden)


def draw(rng: random.Random, count: int, paths: int) -> list[Line]:
    names = ["/", "/Index.html", "/index.html", "/a/b", "/a-b", "/img/x.png", "/q?x=1&y=2", "/*"]
    names += [f"/item/{i}" for i in range(paths)]
    return [
        (
            f"10.0.{rng.randint(0, 9)}.{rng.randint(1, 99)}",
            rng.choice(["GET", "GET", "POST", "HEAD"]),
            names[min(rng.randrange(len(names)), rng.randrange(len(names)))],
            rng.choice([200, 200, 200, 301, 404, 500, 503]),
            rng.randint(0, 90_000),
        )
        for _ in range(count)
    ]


def examples() -> list[Case]:
    lines: list[Line] = [
        ("10.0.0.7", "GET", "/a", 200, 10),
        ("10.0.0.8", "GET", "/b", 404, 5),
        ("10.0.0.7", "GET", "/b", 200, 7),
    ]
    return [case("example 1", "small", lines, hidden=False)]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", draw(rng, rng.randint(8, 15), 2)) for i in range(3)]
    one = draw(rng, 1, 2)
    tie: list[Line] = [("c", "GET", path, 200, rng.randint(1, 9)) for path in ("/b", "/B", "/a", "/A", "/b", "/A")]
    big: list[Line] = [("c", "GET", "/big", 200, 2_000_000_000), ("c", "GET", "/big", 206, 2_147_483_647)]
    made += [
        case("empty log", "edges", []),
        case("one line", "edges", one),
        case("ties by bytes of the path", "edges", tie),
        case("big numbers", "edges", big),
    ]
    return [
        *made,
        case("large", "large", draw(rng, 5_000, 400)),
        case("large, few paths", "large", draw(rng, 4_000, 1)),
    ]


def judge(case: Case, outcome: StepOutcome) -> bool:
    return stdout_is(outcome, case.expected)
