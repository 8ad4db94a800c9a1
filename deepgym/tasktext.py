"""The text a model is given: the author's task, the examples, and the form the answer must have."""

import json
from collections.abc import Sequence

from deepgym.models import AnswerForm, Case, Kind

_FORMS = {
    "function": "Answer with one fenced code block of Python that defines the function `{entry}`.",
    "program": "Answer with one fenced code block that holds the whole program. It is saved as `{entry}` and run; "
    "it reads standard input, writes standard output and ends with exit status 0.",
    "files": "Answer with one fenced code block that holds the whole file `{entry}`, which is then run; it must end "
    "with exit status 0.",
}
_BUNDLE_FORM = """Answer with one fenced code block that holds all files you write, each behind a line with its path:

=== path/to/file ===

`{entry}` is the one that is run; it must end with exit status 0."""


def render_task(text: str, kind: Kind, entry: str, answer: AnswerForm, examples: Sequence[Case]) -> str:
    """The task text with the examples (function and program tasks) and the answer's form behind it."""
    form = _BUNDLE_FORM if answer == "bundle" else _FORMS[kind]
    shown = "" if kind == "files" else "\n\n".join(_example(case, kind, entry) for case in examples)
    parts = [text.strip(), f"Examples:\n\n{shown}" if shown else "", form.format(entry=entry)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _example(case: Case, kind: Kind, entry: str) -> str:
    if kind == "function":
        arguments = [_literal(argument) for argument in case.args]
        arguments += [f"{name}={_literal(value)}" for name, value in case.kwargs.items()]
        return f"    {entry}({', '.join(arguments)}) -> {_literal(case.expected)}"
    stdin = case.stdin.decode("utf-8", errors="replace")
    return f"Input:\n\n{_indented(stdin)}\n\nOutput:\n\n{_indented(str(case.expected))}"


def _literal(value: object) -> str:
    """Python notation of JSON data, tuples shown as the lists they arrive as."""
    return repr(json.loads(json.dumps(value)))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").split("\n"))
