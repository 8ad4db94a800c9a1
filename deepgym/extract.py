"""Taking the answer's code out of a chat model's response.

Last fenced code block wins; without one the whole response is the code. Fences follow CommonMark 0.31, section 4.5
(https://spec.commonmark.org/0.31.2/#fenced-code-blocks), read line by line in linear time, as responses are hostile
and up to two million characters long (up to two seconds: call it off the event loop). Seven readings are ours:

- a backtick fence with at most a language behind it also opens at the end of a line of other text, as in
  `Answer: ```python` and `<answer>```python`, if that line holds no earlier backtick and something follows it;
- a closing fence may have a tag or a special token right behind it: "```</answer>", "```[EOS]";
- a line may close a block in a way that CommonMark does not know: backticks with more than one word or with a sign
  behind them ("```}", "``` This works."), backticks behind the last code, `</think>`. As code can hold such lines too,
  in a string, they count only when the text would otherwise end inside a block, or, but for backticks behind code,
  when a fence with a language comes next;
- a last block that is never closed and empty is a stray fence: the block before it counts;
- HTML blocks do not hide a fence, because models like to put one right behind a line such as `<answer>`;
- a fence indented inside a list item stays open until its closing fence, also when the code between them is not
  indented, as models often write it;
- a fence inside a block quote is quoted text, not the answer.
"""

import re
from dataclasses import dataclass, field

_SPECIAL_TOKEN = re.compile(r"<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\n]{1,64}｜>|</s>|<eos>|<pad>|<end_of_turn>")
_LINE_END = re.compile(r"\r\n|\n|\r")
_FENCE = re.compile(r"(`{3,})([^`]*)\Z|(~{3,})(.*)\Z", re.DOTALL)
_LATE_FENCE = re.compile(r"(?!>)[^`]*[^`\s]\s*(`{3,})([\w+-]*)\s*\Z")
_NAMED_FENCE = re.compile(r"(`{3,})[ \t]*\w[^`]*\Z")
_BEHIND_CLOSING = re.compile(r"[ \t]*</?[A-Za-z|｜]|\[/?[A-Z]")
# What may follow a fence that opens a block: one word such as `python`, or attributes such as {python}.
_LANGUAGE = re.compile(r"[ \t]*(?:[A-Za-z0-9_][^\s`]*(?<![.,;:!?)])|\{.+\})[ \t]*\Z")
_WORDS_BEHIND = re.compile(r"(?:[^`]|`[^`]+`)+\Z")
_BEHIND_CODE = re.compile(r"([^`]*[^`\s])[ \t]*(`{3,})(?:[ \t]*</?[A-Za-z|｜].*)?[ \t]*\Z")
_LIST_MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?=[ \t]|\Z)")
_BUNDLE_HEADER = re.compile(r"=== (\S+) ===[ \t]*\Z")
_BUNDLE_PATH = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.-]{1,100}(?:/[A-Za-z0-9_.-]{1,100}){0,7}\Z")
_LIST_STARTS = frozenset("-+*0123456789")
_TAB = 4
MAX_BUNDLE_FILES = 64


def extract_code(response: str) -> str:
    """Return the code of the response's last fenced block, or the whole response if it has none.

    Special tokens of chat models at the end (`<|im_end|>`, `</s>`, `<end_of_turn>`, ...) are removed first. A fence
    that is never closed runs to the end of the response. Lines come back joined by a plain newline.

    Example: "Sure:\\n```python\\nx = 1\\n```" -> "x = 1\\n"
    """
    text = strip_special_tokens(response)
    block = _last_fenced_block(text)
    return text if block is None else block


def strip_special_tokens(response: str) -> str:
    """Remove the special tokens a chat model ends with, with the white space between and behind them."""
    end = kept = len(response)
    while True:
        while end and response[end - 1].isspace():
            end -= 1
        start = response.rfind("<", 0, end)
        match = _SPECIAL_TOKEN.match(response, start, end) if start >= 0 else None
        if match is None or match.end() != end:
            return response[:kept]
        end = kept = start


def split_bundle(code: str) -> dict[str, str]:
    """Split an answer of several files, each behind a line `=== path ===`, into {path: content}.

    Raises ValueError, in words meant for the answer's author, when there is no such line, a path leaves the working
    directory or comes twice, or there are more than MAX_BUNDLE_FILES files. Text before the first header is ignored.
    """
    files: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in _LINE_END.split(code):
        header = _BUNDLE_HEADER.match(line)
        if header is None:
            if current is not None:
                current.append(line)
            continue
        path = header.group(1)
        if not _BUNDLE_PATH.match(path) or "." in path.split("/"):
            raise ValueError(f"{path!r} is not a plain relative path (letters, digits, '_', '-', '.', '/')")
        if path in files:
            raise ValueError(f"file {path!r} is given twice")
        if len(files) == MAX_BUNDLE_FILES:
            raise ValueError(f"more than {MAX_BUNDLE_FILES} files")
        current = files[path] = []
    if not files:
        raise ValueError("no line of the form '=== path ===' names a file")
    return {path: "\n".join(lines).rstrip("\n") + "\n" for path, lines in files.items()}


@dataclass(slots=True)
class _Fence:
    """A fence that is open, and the lines behind it."""

    marker: str
    indent: int  # columns of white space that its lines lose
    item_column: int  # content column of the list item that it stands in
    late: bool = False  # it stands behind other text
    named: bool = False  # it names a language
    lines: list[str] = field(default_factory=list)
    inner: int = 0  # fences with a language among the lines that no doubtful end has matched
    thinks: bool = False  # the lines hold a <think> of their own
    doubted: bool = False  # a doubtful end was seen
    over: bool = False  # ... of a kind that a fence with a language behind it confirms

    def add(self, line: str) -> None:
        self.lines.append(_remove_indent(line, self.indent) if self.indent else line)

    def doubtful_end(self, line: str, body: str, near: bool) -> list[str] | None:
        """What the block's last lines would be if it ended here: the code before the backticks, or none.

        None if this line cannot be the end. near: the line's indent is one of a fence.
        """
        if body.rstrip() == "</think>":
            if self.thinks:
                return None
            self.over = True
            return []
        self.thinks = self.thinks or "<think>" in body
        if self.marker[0] != "`":
            return None
        behind = body.lstrip("`")
        code: list[str] = []
        if len(body) - len(behind) >= len(self.marker) and near:
            if _LANGUAGE.match(behind):
                self.inner += 1
                return None
            if not _WORDS_BEHIND.match(behind):
                return None
        else:
            match = _BEHIND_CODE.match(line)
            if match is None or len(match.group(2)) < len(self.marker):
                return None
            code = [match.group(1)]
        if self.inner:  # it closes a fence that is part of the code
            self.inner -= 1
            return None
        self.over = self.over or not code
        return [_remove_indent(part, self.indent) for part in code]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading can start: the line's number, the last block before it, and the open list items' columns."""

    line: int = 0
    block: list[str] | None = None
    lists: tuple[int, ...] = ()


def _last_fenced_block(text: str) -> str | None:
    """The content of the last fenced code block; None when there is no opening fence."""
    if "```" not in text and "~~~" not in text:
        return None
    lines = _LINE_END.split(text)
    block, doubt = _read_blocks(lines, _Place(), trusting=False)
    if doubt is not None:
        other, _ = _read_blocks(lines, doubt, trusting=True)
        if other is not None and any(map(str.strip, other)):
            block = other
    return None if block is None else "".join(line + "\n" for line in block)


def _read_blocks(lines: list[str], start: _Place, trusting: bool) -> tuple[list[str] | None, _Place | None]:
    """(lines of the last block, the place behind the last doubtful end if the text ends inside a block).

    trusting: take doubtful ends for ends.
    """
    block, lists = start.block, list(start.lists)
    fence: _Fence | None = None
    doubt: _Place | None = None
    for number in range(start.line, len(lines)):
        line = lines[number]
        indent, body = _split_indent(line)
        if fence is None:
            fence = _opening(indent, body, lists) if body else None
            if fence is not None and fence.named:
                doubt = None  # it opens where one should: nothing before it was read wrongly
            continue
        if "`" not in body and "~" not in body and "think>" not in body:
            fence.add(line)
            continue
        near = indent - fence.item_column <= 3
        named = _NAMED_FENCE.match(body)
        if named is not None and (fence.late or (fence.over and near and _LANGUAGE.match(body.lstrip("`")))):
            # The backticks were those of "wrap it in ```", or the doubtful end was one: this line opens a block.
            if doubt is not None and not fence.late:
                block = doubt.block
            fence, doubt = _Fence(named.group(1), indent, fence.item_column, named=True), None
        elif near and body[:3] == fence.marker[:3] and _closes(body, fence.marker):
            block, fence = fence.lines, None
        elif (end := fence.doubtful_end(line, body, near)) is not None and trusting:
            block, fence = fence.lines + end, None
        else:
            if end is not None and not fence.doubted:
                fence.doubted, doubt = True, _Place(number + 1, fence.lines + end, tuple(lists))
            fence.add(line)
    if fence is None:
        return block, None
    content = fence.lines[:-1] if fence.lines and not fence.lines[-1] else fence.lines  # no line behind the last break
    blank = not any(map(str.strip, content))
    if fence.late and (blank or (not fence.named and block is not None)):
        return block, None  # backticks at the end of some last words open nothing
    return (block if blank and block is not None else content), doubt


def _opening(indent: int, body: str, lists: list[int]) -> _Fence | None:
    """The fence that a line outside of blocks opens, if it does; keeps the open list items up to date."""
    while lists and indent < lists[-1]:
        lists.pop()
    if body[0] in _LIST_STARTS:
        indent, body = _enter_list_items(indent, body, lists)
    item_column = lists[-1] if lists else 0
    if indent - item_column > 3:
        return None
    match = _FENCE.match(body)
    if match is not None:
        marker, info = (match.group(1), match.group(2)) if match.group(1) else (match.group(3), match.group(4))
        return _Fence(marker, indent, item_column, named=_LANGUAGE.match(info) is not None)
    late = _LATE_FENCE.match(body) if "```" in body else None
    if late is None:
        return None
    return _Fence(late.group(1), item_column, item_column, late=True, named=bool(late.group(2)))


def _enter_list_items(indent: int, body: str, lists: list[int]) -> tuple[int, str]:
    """Consume list markers at the start of a line, recording each item's content column; return what follows them."""
    while indent - (lists[-1] if lists else 0) <= 3 and len(lists) < 32:
        marker = _LIST_MARKER.match(body)
        if marker is None:
            break
        spaces, rest = _split_indent(body[marker.end() :], indent + marker.end())
        column = indent + marker.end()
        # Five or more spaces behind the marker are indented code; the item's content starts one behind the marker.
        lists.append(column + 1 if not rest or spaces - column > 4 else spaces)
        indent, body = spaces, rest
    return indent, body


def _split_indent(line: str, column: int = 0) -> tuple[int, str]:
    """(column of the first character that is neither space nor tab, the line from there on)."""
    body = line.lstrip(" \t")
    space = line[: len(line) - len(body)]
    if "\t" not in space:
        return column + len(space), body
    for character in space:
        column += 1 if character == " " else _TAB - column % _TAB
    return column, body


def _closes(body: str, marker: str) -> bool:
    """True when a line (without its indent) is a closing fence for `marker`: same character, at least as long."""
    run = body.rstrip(" \t")
    behind = run.lstrip(marker[0])
    if len(run) - len(behind) < len(marker):
        return False
    return not behind or (marker[0] == "`" and _BEHIND_CLOSING.match(behind) is not None)


def _remove_indent(line: str, columns: int) -> str:
    """The line with up to `columns` columns of leading white space removed."""
    position = column = 0
    while position < len(line) and column < columns and line[position] in " \t":
        column += 1 if line[position] == " " else _TAB - column % _TAB
        position += 1
    return " " * (column - columns) + line[position:] if column > columns else line[position:]
