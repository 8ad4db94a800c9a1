"""What the policy sees of a program."""

from openrlhf.env.code_result import CodeResult, finished

TRACEBACK = """\
Traceback (most recent call last):
  File "/work/main.py", line 2, in <module>
    print(1 / 0)
          ~~^~~
ZeroDivisionError: division by zero
"""


def test_a_traceback_loses_file_names_and_marks():
    result = finished("before\n", TRACEBACK, success=False)
    assert result.error
    assert result.text == (
        "Traceback (most recent call last):\n"
        "  line 2, in <module>\n"
        "    print(1 / 0)\n"
        "ZeroDivisionError: division by zero"
    )


def test_output_keeps_its_lines_but_not_the_last_break():
    assert finished("1\n\n2\n", "a warning", success=True) == CodeResult("1\n\n2", error=False)
    assert finished("", "", success=True) == CodeResult("", error=False)
