"""`--data.input_template`: what a run makes of it."""

from dataclasses import dataclass
from string import Formatter


@dataclass(frozen=True, slots=True)
class Template:
    """The template that is used, None for none, and what to tell."""

    used: str | None
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def choose_template(template: str | None, apply_chat_template: bool) -> Template:
    """`template`: the flag's value. `apply_chat_template`: the model's own template renders the prompts."""
    if template is None:
        return Template(None)
    flag = "--data.input_template"
    if apply_chat_template:
        return Template(None, (f"{flag} has no effect: --data.apply_chat_template renders the prompts",))
    if "{}" not in template:
        return Template(None, (f"{flag} {template!r} has no effect: it holds no {{}} to put the prompt in",))
    if not _one_field(template):
        problem = f"{flag} {template!r}: needs exactly one {{}}; write other braces twice"
        return Template(template, problems=(problem,))
    if "\\n" in template:
        hint = f"{flag} holds a backslash and an n, not a line break; in bash write $'..\\n..' for one"
        return Template(template, (hint,))
    return Template(template)


def _one_field(template: str) -> bool:
    """Whether `template.format(prompt)` works."""
    try:
        return [piece[1] for piece in Formatter().parse(template) if piece[1] is not None] == [""]
    except ValueError:  # unbalanced braces
        return False
