"""Verdicts on mathematical answers, hostile ones among them (public cases g1 and g2)."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from openrlhf.env import fork_server
from openrlhf.env.math import judge
from openrlhf.env.math.grade import grade, grade_all
from openrlhf.env.math.pool import ComparePool
from openrlhf.env.workers import Limits, WorkerGone

# Each takes minutes, gigabytes or the parser's stack when compared without limits.
HOSTILE = [
    r"2^{2^{2^{2^{2^{2}}}}}",
    "(" * 30 + "1" + ")" * 30,
    "(" * 500 + "1" + ")" * 500,
    "{" * 3000 + "1" + "}" * 3000,
    "x" * 1_000_000,
]


@pytest.fixture(scope="module")
def pool():
    made = ComparePool(size=2)
    yield made
    made.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("response", "label", "verdict"),
    [
        (r"\boxed{5}. No: \boxed{7}.", "7", 1.0),
        (r"\boxed{5}. No: \boxed{7}.", "5", 0.0),
        (r"\boxed{1}, \boxed{2}, \boxed{3}", r"\{1,2,3\}", 0.0),  # boxes are never joined into a set
        (r"\boxed{1, 3, 2}", r"\{1,2,3\}", 1.0),
        (r"\boxed{\boxed{7}}", "7", 1.0),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{\sqrt{2}}{2}", 1.0),
        (r"\boxed{1/3}", r"\frac13", 1.0),
        (r"\boxed{\dfrac{14}{2}}", "4 + 3 = 7\n#### 7", 1.0),
        (r"\boxed{x^2-1}", "(x-1)(x+1)", 1.0),
        (r"\boxed{0.33}", r"\frac13", 0.0),
        (r"\boxed{\text{Evelyn}}", "Evelyn", 1.0),
        (r"\boxed{7", "7", 0.0),
        (r"<think>\boxed{7}</think>", "7", 0.0),
        (r"\fbox{7}", "7", 0.0),
        ("7", "7", 0.0),
        (r"\boxed{}", "7", 0.0),
        ("__import__('os')._exit(1)", "7", 0.0),
        (r"\boxed{__import__('os').kill(1, 9)}", "7", 0.0),
        (r"\boxed{\frac{1}{0}}", "7", 0.0),
        # Small numbers, which math-verify rounds to 0.
        (r"\boxed{2^{-60}}", "2^{-61}", 0.0),
        (r"\boxed{\frac{1}{2^{60}}}", "2^{-60}", 1.0),
        (r"\boxed{x=2^{-60}}", "x=2^{-61}", 0.0),
        (r"\boxed{6.63\times10^{-30}}", r"6.63\times10^{-34}", 0.0),
        (r"\boxed{66.3\times10^{-35}}", r"6.63\times10^{-34}", 1.0),
        (r"\boxed{\frac{1}{19!}}", r"\frac{1}{20!}", 0.0),
        (r"\boxed{\frac{20}{20!}}", r"\frac{1}{19!}", 1.0),
        (r"\boxed{\frac{1}{1024}}", "0.0009765625", 1.0),
        (r"\boxed{\frac{1}{3}}", "0.333333", 1.0),
        (r"\boxed{50\%}", "0.5", 1.0),
        # Groups of digits, which it adds.
        (r"\boxed{210}", r"10\,200", 0.0),
        (r"\boxed{10200}", r"10\,200", 1.0),
        (r"\boxed{1\;000~000.5}", "1000000.5", 1.0),
        (r"\boxed{10\ 200}", "10{,}200", 1.0),
        (r"\boxed{2\,\frac{1}{2}}", r"\frac52", 1.0),
        (r"\boxed{x^2\ 100}", "100x^2", 1.0),
        (r"\boxed{2^3\,125}", "1000", 1.0),
        (r"\boxed{0{,}125}", r"\frac18", 1.0),
        (r"\boxed{0{,}125}", "125", 0.0),
        # The base of a numeral, which it passes over.
        (r"\boxed{52_9}", "52_8", 0.0),
        (r"\boxed{52_{9}}", "52_9", 1.0),
        (r"\boxed{52}", "52_9", 1.0),
        (r"\boxed{(52)_{ 9 }}", "52_{8}", 0.0),
    ],
)
def test_verdicts(pool, response, label, verdict):
    assert grade(response, label, pool) == verdict


# Pairs that must not be right, nor right ones be lost, whichever of both is the gold answer.
APART = [
    # Numbers side by side, which math-verify adds.
    ("10 20", "30"),
    ("2 3", "5"),
    (r"2\quad3", "5"),
    ("2(3)", "5"),
    ("2{3}", "5"),
    ("(2)(3)", "5"),
    ("7(11)(13)", "31"),
    ("2 1/2", r"\frac{3}{2}"),
    (r"\frac123", r"\frac{1}{23}"),
    # Words, which are products to it.
    ("BCA", "ABC"),
    ("IV", "VI"),
    ("NO", "ON"),
    ("dog cat", "cat dog"),
    # What follows a unit, and the unit itself.
    (r"5\text{ ft }6\text{ in}", r"5\text{ ft }9\text{ in}"),
    (r"7\text{ or 5}", "7"),
    (r"7\text{ is wrong; it is 5}", "7"),
    (r"3\mathbf{i}+4\mathbf{j}", r"3\mathbf{i}+5\mathbf{j}"),
    (r"n^2 \text{ if } n \equiv 1 \pmod{4}", r"n^2 \text{ if } n \equiv 3 \pmod{4}"),
    ("10 km", "10 m"),
    (r"3\text{ PM}", r"3\text{ AM}"),
    (r"5\text{ dollars}", r"5\text{ cents}"),
    (r"\$5", r"5\text{ cents}"),
    (r"3\text{ boys}", r"3\text{ girls}"),
    (r"5^\circ\text{C}", r"5^\circ\text{F}"),
    (r"7\text{ million}", "7"),
    # Primes and transposes.
    ("f'(x)", "f(x)"),
    ("y''", "y'"),
    ("A^T", "A"),
    # Equations that are false, lists that go on, times, Euler's number.
    ("7=5", "5"),
    ("2+2=5", "5"),
    ("0.333...", "0.333"),
    ("1,2,3...", "1,2,3"),
    (r"1,2,3,\ldots", "1,2,3"),
    # Small parts of sums, which math-verify takes for 0. Of the first pair 2^100 times the one is 1, the other 2^100-1.
    (r"\frac{1}{2^{100}}", r"\frac{2^{100}-1}{2^{100}}"),
    (r"\frac{1}{3^{50}}", r"\frac{3^{50}-1}{3^{50}}"),
    (r"\frac1{100!}", r"\frac{99!}{100!}"),  # the second is 1/100
    (r"\frac{1}{10^{400}}", r"\frac{10^{399}}{10^{400}}"),  # the second is 1/10
    (r"10^{30}\cdot10^{-30}", "10^{-30}"),  # the first is 1
    (r"\frac{2^{2005}+1}{3\cdot2^{2006}}", r"\frac{1}{3\cdot2^{2006}}"),  # the first is over 1/6
    ("1-1", r"\frac{2^{100}-1}{2^{100}}"),
    (r"p=\frac{1}{2^{100}}", r"\frac{2^{100}-1}{2^{100}}"),
    (r"(3,\frac{1}{2^{100}})", r"(3,\frac{2^{100}-1}{2^{100}})"),
    (r"[0,\frac{1}{2^{100}}]", r"[0,\frac{2^{100}-1}{2^{100}}]"),
    (r"x+\frac{1}{2^{100}}", r"x+\frac{2^{100}-1}{2^{100}}"),
    ("1:2:3", r"\frac16"),
    ("2e3", "6e"),
    # Repeating decimals: 1/3 is no 0.333, and 0.1666... is no 0.1616...
    (r"0.\overline{3}", "0.333"),
    (r"0.1\overline{6}", r"0.\overline{16}"),
    # Another unit, another currency, letters that are factors, another set of numbers.
    ("5 m^2", "5 m"),
    ("5 km/h", r"5\text{ mph}"),
    ("€5", r"\$5"),
    ("€5", "£5"),
    ("-5 dollars", "5"),
    ("5m^2", "5"),
    # One letter is a variable, with a space in front too; the inner product of u and v is no pair.
    ("5 m^2", "5"),
    ("6 s^2", "6"),
    ("5 L", "5"),
    (r"5\,L", "5"),
    (r"4\,h^2", "4"),
    ("4 m/s", "4"),
    (r"\frac{1}{3} h/s", r"\frac{1}{3}"),
    ("6 s^2", "5s^2"),
    ("26 cm^2", "25cm^2"),
    (r"\langle u,v\rangle", "(u,v)"),
    (r"\langle2u,-v\rangle", "(2u,-v)"),
    # To base 3, 0.1212... is 5/8 (12 is 5, and 9 - 1 is 8), no 12/99; to base 4 it is 6/15.
    (r"0.\overline{12}_3", r"\frac{4}{33}"),
    (r"0.\overline{12}_3", r"0.\overline{12}_4"),
    (r"0.\overline{12}_{3}", r"0.\overline{12}"),
    (r"(0.\overline{12})_3", r"\frac{4}{33}"),
    ("5 m^2", "5x"),
    ("3ad", "3"),
    (r"2n+1, n\in\mathbb{Z}", r"2n+1, n\in\mathbb{N}"),
    (r"x, y\in\mathbb{R}", "x"),
    (r"f(x)=cx\text{ for all }c", "f(x)=c"),
    (r"7\text{ for all } x > 3", "7"),
    (r"\langle1,2\rangle", "(1,3)"),
    ("10²³", "10^6"),
]
ALIKE = [
    ("(2)(3)", "6"),
    ("2(3)^2", "18"),
    ("7(11)(13)", "1001"),
    ("2 1/2", "2.5"),
    ("-2 1/2", "-2.5"),
    ("3 3/4", "3.75"),
    (r"\frac12", r"\frac 1 2"),
    (r"x^2(3)", r"x^2(3)"),
    ("xy", "yx"),
    ("abc", "abc"),
    (r"\text{Yes}", "yes"),
    ("inf", r"\infty"),
    ("4 and 6", "6,4"),
    (r"5\text{ ft }6\text{ in}", "5 feet 6 inches"),
    (r"5\text{ cm}^2", "5"),
    (r"10\text{ m}/\text{s}", "10"),
    (r"5\text{ cm}", "5 cm"),
    (r"3\text{ m}^2", r"3\text{ square meters}"),
    (r"10\text{ sec}", r"10\text{ seconds}"),
    (r"\$5\text{ per ticket}", "5"),
    (r"7\text{ for all }x\in\mathbb{R}", "7"),
    (r"x=\frac{1}{2}\text{ or }x=3", r"\frac12,3"),
    (r"7\text{ million}", "7,000,000"),
    ("f'(x)=2x", "f'(x) = 2x"),
    (r"(AB)^T", "B^TA^T"),
    ("1.5e3", "1500"),
    ("1.5E-3", "0.0015"),
    ("3e-2", "-2+3e"),
    ("45°", "45"),
    ("√2", r"\sqrt{2}"),
    ("3½", "3.5"),
    ("∞", r"\infty"),
    ("x≤2", r"x\le2"),
    (r"\varnothing", r"\emptyset"),
    (r"\textcolor{red}{7}", "7"),
    (r"7\tag{1}", "7"),
    (r"90^\circ", "90"),
    (r"\$1{,}000", "1000"),
    (r"\left[1,3\right)", "[1,3)"),
    (r"50\%", "0.5"),
    (r"50\%", "50"),
    (r"12.5\%", r"\frac18"),
    (r"0.5\pi", r"\frac{\pi}{2}"),
    ("2+3i", "3i+2"),
    ("2y+x-x", "2y"),
    ("y=100x-137", "y=100(x-1.37)"),  # both 0 at 1.37, but for the last digit of a float
    ("100x+10y-335", "100(x-1.37)+10(y-19.8)"),  # 137 + 198 = 335
    # A text that only a program writes, but the same one.
    ('["7"]', '["7"]'),
    # Repeating decimals: 3/9, 142857/999999, (16-1)/90, (33-3)/9.
    (r"0.\overline{3}", r"\frac13"),
    (r"0.\bar3", "1/3"),
    (r"0.\dot{3}", r"\frac13"),
    (r"0.\overline{142857}", r"\frac17"),
    (r"0.\dot{1}4285\dot{7}", r"\frac17"),
    (r"-0.1\overline{6}", r"-\frac16"),
    (r"3.\overline{3}", r"\frac{10}{3}"),
    (r"16.\overline{6}\%", r"\frac16"),
    # A unit on one side, or the same one on both.
    ("5 dollars", "5"),
    ("5 USD", "5"),
    ("5 euros", "5"),
    ("25 cm^2", "25"),
    ("5 cm²", "5"),
    ("5 km/h", "5"),
    ("£5", "5"),
    ("5€", "5"),
    ("£2 million", "2000000"),
    (r"\text{\$}1{,}250.00", "1250"),
    ("5 m^2", r"5\text{ m}^2"),
    ("25 cm^2", "25cm^2"),
    ("12 m^2", "12m^2"),
    (r"12\,m^2", "12m^2"),
    ("6 s^2", "6s^2"),
    ("5 L", "5L"),
    ("12 in", "12in"),
    ("5 m", "5 meters"),
    ("9.8 m/s^2", "9.8m/s^2"),
    (r"9.8\text{ m/s}^2", "9.8m/s^2"),
    ("5 euros", "€5.00"),
    # Adornment.
    ("**7**", "7"),
    ("= 7", "7"),
    (r"\approx 7", "7"),
    ("7,", "7"),
    (r"7\,", "7"),
    ("7;", "7"),
    ("10⁻³", "0.001"),
    ("101₂", "101_2"),
    ("１２", "12"),
    ("50％", "0.5"),
    ("7\u200b", "7"),
    (r"\bf 7", "7"),
    (r"{\large 7}", "7"),
    (r"\underline{7}", "7"),
    (r"\sfrac12", "0.5"),
    (r"\nicefrac{1}{2}", "0.5"),
    (r"\text{Answer: }7", "7"),
    (r"\left\langle1,2\right\rangle", "(1,2)"),
    (r"\langle x,0\rangle", "(x,0)"),
    (r"4\sqrt(2)", r"4\sqrt2"),
    # What an answer holds for.
    (r"f(x)=cx \text{ for all } c", "f(x)=cx"),
    (r"2n+1, n\in\mathbb{Z}", "2n+1"),
    (r"2n+1, n\in\mathbb{Z}", r"1+2n, n \in \mathbb{Z}"),
    (r"x=\infty", r"\infty"),
    (r"\sqrt2\sqrt3-\sqrt6", "0"),
    (r"\{\frac{1}{10^{400}},\frac{2}{10^{400}}\}", r"\{\frac{2}{10^{400}},\frac{1}{10^{400}}\}"),
    (r"(\frac13,2)", "(0.333333,2)"),
    (r"y=-\frac12x+\frac34", "2x+4y-3=0"),
    (r"2\frac{1}{2}", r"\frac52"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
]


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"), [(*pair, 0.0) for pair in APART] + [(*pair, 1.0) for pair in ALIKE]
)
def test_in_both_orders(pool, answer, gold, verdict):
    assert grade(rf"\boxed{{{answer}}}", gold, pool) == verdict
    assert grade(rf"\boxed{{{gold}}}", answer, pool) == verdict


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        # A box inside the box is only a frame.
        (r"5 \boxed{7}", "7", 0.0),
        (r"5 \boxed{7}", "5", 0.0),
        (r"-\boxed{7}", "-7", 1.0),
        (r"-\boxed{7}", "7", 0.0),
        (r"\frac{1}{\boxed{7}}", "7", 0.0),
        # A time is no fraction; a ratio is one.
        ("8:30", r"\frac{4}{15}", 0.0),
        ("1:2", r"\frac12", 1.0),
        # An equation has the value of its right-hand side.
        ("y'=2x", "2x", 1.0),
        ("2+3=5", "5", 1.0),
        (r"\frac{1}{3}=0.33", "0.33", 1.0),
        ("x=3", "3", 1.0),
    ],
)
def test_of_one_order(pool, answer, gold, verdict):
    assert grade(rf"\boxed{{{answer}}}", gold, pool) == verdict


@pytest.mark.parametrize("label", ["", "  ", "$$", '["7"]'])
def test_no_gold_answer_is_no_verdict(pool, label):
    assert math.isnan(grade(r"\boxed{7}", label, pool))


def test_in_a_thread(pool):
    verdicts: list[float] = []
    thread = threading.Thread(target=lambda: verdicts.append(grade(r"\boxed{\frac{1}{3}}", r"\frac{2}{6}", pool)))
    thread.start()
    thread.join(60)
    assert verdicts == [1.0]


def test_a_batch_of_hostile_answers_and_one_good_one(pool):
    answers = [HOSTILE[i % len(HOSTILE)] for i in range(31)]
    answers.insert(17, r"\frac{14}{2}")
    started = time.monotonic()
    verdicts = grade_all([rf"\boxed{{{answer}}}" for answer in answers], ["7"] * 32, pool)
    # About 3 s on idle cores: equal answers are compared once. One worker at its wall limit 31 times takes 620 s.
    assert time.monotonic() - started < 60
    assert verdicts == [float(i == 17) for i in range(32)]
    assert len(pool.pids()) == 2
    assert [child for pid in pool.pids() for child in children(pid)] == []  # nothing computes on


@pytest.mark.slow
def test_a_batch_of_different_hostile_answers(pool):
    answers = [r"10^{10^{10}}", r"(10!)!", *(rf"{n}^{{10^{{10}}}}" for n in range(2, 31))]
    started = time.monotonic()
    verdicts = grade_all([rf"\boxed{{{a}}}" for a in answers] + [r"\boxed{14/2}"], ["7"] * 32, pool)
    assert verdicts == [0.0] * 31 + [1.0]
    assert time.monotonic() - started < 32 * Limits().wall_s / 4


@pytest.mark.slow
def test_memory_is_bounded():
    # 2^(10^10) needs 1.25 GB; with 64 MiB more than the loaded libraries the fork is out of memory at once.
    small = ComparePool(size=1, limits=Limits(cpu_s=30, memory_bytes=256 << 20))
    try:
        started = time.monotonic()
        assert small.compare(r"2^{10^{10}}", "7") in (fork_server.OVERRUN, judge.WRONG)
        assert time.monotonic() - started < 25
        assert small.compare("14/2", "7") == judge.RIGHT
    finally:
        small.close()


@pytest.mark.slow
def test_a_busy_machine_is_no_verdict():
    # No wall time at all: no fork can answer, and that is not the answer's fault.
    hasty = ComparePool(size=1, limits=Limits(wall_s=0.0))
    try:
        assert math.isnan(grade(r"\boxed{14/2}", "7", hasty))
    finally:
        hasty.close()


def test_a_killed_worker_is_replaced(pool):
    assert pool.compare("16/2", "8") == judge.RIGHT
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
    assert pool.compare("18/2", "9") == judge.RIGHT


@pytest.mark.slow
def test_close_ends_the_workers():
    closing = ComparePool(size=1)
    assert closing.compare("16/2", "8") == judge.RIGHT
    pids = closing.pids()
    closing.close()
    assert len(pids) == 1
    assert not any(running(pid) for pid in pids)


def test_without_math_verify_the_error_says_what_to_install(monkeypatch, tmp_path):
    script = tmp_path / "judge.py"
    script.write_text("import sys\nsys.modules['math_verify'] = None\n" + Path(judge.__file__).read_text())
    monkeypatch.setattr(judge, "__file__", str(script))
    with pytest.raises(WorkerGone, match="install math-verify"):
        ComparePool(size=1).compare("14/2", "7")


@pytest.mark.parametrize(
    "death",
    [
        "os.kill(os.getpid(), 9)",
        pytest.param("sys.exit()", marks=pytest.mark.slow),
        pytest.param("os._exit(1)", marks=pytest.mark.slow),
    ],
)
def test_workers_end_with_their_process(death):
    program = f"""
import os, sys
from openrlhf.env.math.pool import ComparePool
pool = ComparePool(size=1)
pool.compare("14/2", "7")
print(*pool.pids(), flush=True)
{death}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    (pid,) = map(int, done.stdout.split())
    deadline = time.monotonic() + 60
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(pid)
