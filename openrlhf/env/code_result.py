"""What a policy sees of a program that it ran, in the form of SandboxFusion.

ended well      what it printed
ended badly     its traceback, without file names and marks
did not end     a word for it: TimeLimitExceeded, ...
was not run     RunTime ERROR: nothing could be found to run it
"""

import re
from dataclasses import dataclass

_FILE = re.compile(r'File "[^"\n]*", ')
_MARKS = re.compile(r"^[ \t]*[~^]+[ \t]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CodeResult:
    """`error`: the program, or what should have run it, failed. `down`: why it was not run; empty: it was."""

    text: str
    error: bool
    down: str = ""


def finished(stdout: str, stderr: str, success: bool) -> CodeResult:
    """The result of a program that ended by itself."""
    if success:
        return CodeResult(stdout.rstrip("\n"), error=False)
    return CodeResult(_MARKS.sub("", _FILE.sub("", stderr)).rstrip("\n"), error=True)


def not_run(reason: str) -> CodeResult:
    """The result of a program that nothing could run, which is no fault of its own."""
    return CodeResult("RunTime ERROR", error=True, down=reason)
