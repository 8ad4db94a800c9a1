"""Which text is the answer (public case g1)."""

import time

import pytest

from openrlhf.env.math.boxed import last_boxed, nesting, outside_thinking


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First I get \boxed{5}. No, that is wrong; corrected: \boxed{7}.", "7"),
        (r"\boxed{5} " + "so " * 100 + r"\boxed{7}", "7"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed{ \boxed{ 7 } }", "7"),
        (r"\boxed{\boxed{7}} and \boxed{8}", "8"),
        (r"\boxed{3 + \boxed{4}}", r"3 + \boxed{4}"),
        (r"\boxed{\boxed{3} + \boxed{4}}", r"\boxed{3} + \boxed{4}"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1,2,3\}}", r"\{1,2,3\}"),
        (r"\boxed{\left\{x}", r"\left\{x"),  # an escaped brace needs no partner
        (r"\boxed {7}", "7"),
        (r"\\boxed{7}", "7"),  # escaped once too often
        ("\\boxed{1\n2}", "1\n2"),
        (r"{ stray \boxed{7} } }", "7"),
        (r"} \boxed{7}", "7"),
        (r"$\boxed{7}$<|im_end|>", "7"),
        (r"\boxed{}", ""),
        # The last box does not close: no answer, whatever came before it.
        (r"\boxed{7", None),
        (r"\boxed{5}, so \boxed{7", None),
        (r"\boxed{5}, so \boxed{\frac{7}{2}", None),
        # An unclosed box before the last one does no harm.
        (r"\boxed{5 so \boxed{7}", "7"),
        (r"\fbox{7}", None),
        (r"\boxed 7", None),
        ("boxed{7}", None),
        ("7", None),
        ("", None),
    ],
)
def test_last_boxed(text, answer):
    assert last_boxed(text) == answer


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (r"<think>\boxed{5}</think>\boxed{7}", r"\boxed{7}"),
        (r"\boxed{5}</think>7", "7"),  # the template opened it
        (r"<think>a</think>b<think>c</think>d", "d"),
        (r"<think>\boxed{7}", ""),
        (r"\boxed{7}<think>\boxed{5}", r"\boxed{7}"),
        ("plain", "plain"),
    ],
)
def test_outside_thinking(text, left):
    assert outside_thinking(text) == left


def test_nesting():
    # ( [ { open together: 3; the closing ones without partner are passed over.
    assert nesting(r") \frac{1}{2} ([{}]) ()") == 3


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 30_000,
        "\\boxed{" * 20_000 + "}" * 20_000,
        "\\" * 200_000,
        "\\boxed" + " " * 200_000,
        "{" * 200_000,
        "\\boxed{" + "x" * 200_000 + "}",
        "\\boxed{}" * 20_000,
    ],
    ids=lambda text: text[:8],
)
def test_linear_in_the_length(text):
    started = time.process_time()
    last_boxed(text)
    assert time.process_time() - started < 2  # about 0.05 s; a quadratic scan takes far longer
