"""The final answer of a response: the content of its last `\\boxed{...}`.

One rule for training and evaluation:

- Only the last box counts; boxes are never joined into a set, so a set stands in one box (`\\boxed{\\{1,2,3\\}}`).
- Braces are matched, escaped ones (`\\{`, `\\}`) aside. A box inside a box belongs to the outer one, and a box that
  only wraps a box is unwrapped.
- If the last box never closes there is no answer, whatever stood in an earlier box.
- What is inside `<think>` is no answer: text counts after the last `</think>`, and not after an unclosed `<think>`.
- `\\fbox{...}` and `\\boxed 7` without braces are no answer.
"""

import re

_BRACE = re.compile(r"\\{1,2}boxed\s{0,8}\{|\\.|[{}]", re.DOTALL)


def outside_thinking(text: str) -> str:
    """The text that may hold the answer: after the last `</think>`, up to a `<think>` that does not close."""
    _, _, after = text.rpartition("</think>")
    return after.partition("<think>")[0]


def last_boxed(text: str) -> str | None:
    """The content of the last box, or None; linear in the length of the text.

    Example:
        `last_boxed(r"\\boxed{5}, no: \\boxed{\\frac{1}{2}}")` is `\\frac{1}{2}`
    """
    stack: list[tuple[int, int] | None] = []  # open braces: (start, content start) of a box, None for a plain one
    last: tuple[int, int, int] | None = None  # start, content start, content end
    for match in _BRACE.finditer(text):
        if match.group() == "}":
            opened = stack.pop() if stack else None
            if opened is not None:  # it starts behind the box that closed before it, or encloses that one
                last = (*opened, match.start())
        elif _is_box(match):
            stack.append((match.start(), match.end()))
        elif match.group() == "{":
            stack.append(None)
    unclosed = [opened[0] for opened in stack if opened is not None]
    if last is None or (unclosed and unclosed[-1] > last[0]):
        return None
    return _unwrap(text[last[1] : last[2]].strip())


def nesting(text: str) -> int:
    """The greatest number of brackets open at once, of any kind; unmatched closing ones are passed over."""
    depth = deepest = 0
    for bracket in re.findall(r"[(\[{}\])]", text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _unwrap(content: str) -> str:
    """`\\boxed{7}` -> `7`. Eight times at most, so that a tower of boxes costs no more than eight passes."""
    for _ in range(8):
        opening = _BRACE.match(content)
        if opening is None or not _is_box(opening) or _closing(content, opening.end()) != len(content) - 1:
            break
        content = content[opening.end() : -1].strip()
    return content


def _closing(text: str, start: int) -> int:
    """Where the brace opened before `start` closes; -1 if it does not."""
    depth = 1
    for match in _BRACE.finditer(text, start):
        depth += -1 if match.group() == "}" else match.group() == "{" or _is_box(match)
        if depth == 0:
            return match.start()
    return -1


def _is_box(match: re.Match[str]) -> bool:
    return len(match.group()) > 2
