"""Taking the answer's code out of a chat model's response.

Last fenced code block wins; without one the whole response is the code. Fences follow CommonMark 0.31, section 4.5
(https://spec.commonmark.org/0.31.2/#fenced-code-blocks), read line by line in linear time, as responses are hostile
and up to two million characters long (up to two seconds: call it off the event loop). Seven readings are ours:

- a backtick fence with at most a language behind it also opens at the end of a line of other text, as in
  `Answer: ```python` and `<answer>```python`, if that line holds no earlier backtick and something follows it;
- a closing fence may have a tag or a special token right behind it: "```</answer>", "```[EOS]";
- a doubtful end is a line that models close a block with and CommonMark does not: backticks with words or a sign
  behind them ("``` This works.", "```}"), backticks behind the last code, `</think>`. Code holds such lines too, so
  one counts only where nothing but plain prose follows, up to the text's end or to a fence that names a language;
  up to a bare fence, only where CommonMark's reading would end inside a block;
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
_COMMENT = re.compile(r"#|//|--|/\*")
# A line of prose: it begins with a capitalised word (but no `Name = 1`, `Name(`), a mark of Markdown's or a tag, or
# consists of words up to a full stop.
_PROSE = re.compile(
    r"[A-Z][a-z'’-]*[,.:;!?]*(?:\Z|\s+(?![\s=+*/%<>|&-]))|[^\x00-\x7f]|\*\*|##|[-*] |\d+[.)] |</?(?:think|answer)>"
    r"|[a-z][\w ,;'’-]*[.!?]\s*\Z"
)
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
    named: bool = False  # a late one that names a language
    lines: list[str] = field(default_factory=list)
    shows: bool = False  # the lines hold a <think> or a fence with a language, so their ends may be part of the code
    doubt: tuple[int, list[str]] | None = None  # a doubtful end: lines before it, and the code before its backticks

    def add(self, line: str, indent: int, body: str) -> None:
        """Add a line (its indent and the rest, too), and note a doubtful end that only prose has followed so far."""
        line = _remove_indent(line, self.indent) if self.indent else line
        margin = indent <= self.indent
        prose = not body or (margin and _PROSE.match(body) is not None)
        if self.doubt is not None and not prose:
            self.doubt = None
        if "`" in body or "think>" in body:
            self.shows = self.shows or "<think>" in body or self.names_language(body)
            if self.doubt is None and not self.shows:
                end = self._code_before_end(line, body, margin, prose)
                self.doubt = None if end is None else (len(self.lines), end)
        self.lines.append(line)

    def names_language(self, body: str) -> bool:
        """True for a fence that would close this one if it had no language behind it."""
        behind = body.lstrip(self.marker[0])
        return len(body) - len(behind) >= len(self.marker) and _LANGUAGE.match(behind) is not None

    def _code_before_end(self, line: str, body: str, margin: bool, prose: bool) -> list[str] | None:
        """The code before the backticks (none, or one line) if this line is a doubtful end; None if it is not."""
        if margin and body.rstrip() == "</think>":
            return []
        if self.marker[0] != "`":
            return None
        behind = body.lstrip("`")
        if behind != body:
            ends = margin and len(body) - len(behind) >= len(self.marker) and _WORDS_BEHIND.match(behind)
            return [] if ends else None
        match = None if prose else _BEHIND_CODE.match(line)
        if match is None or len(match.group(2)) < len(self.marker):
            return None
        code = match.group(1)
        # In a comment or a string that is still open, the backticks are part of the code.
        return None if _COMMENT.search(code) or code.count('"') % 2 or code.count("'") % 2 else [code]

    def content(self) -> list[str]:
        """The lines up to the doubtful end, if there is one, else all."""
        if self.doubt is None:
            return self.lines
        count, code = self.doubt
        return self.lines[:count] + code


def _last_fenced_block(text: str) -> str | None:
    """The content of the last fenced code block; None when there is no opening fence."""
    if "```" not in text and "~~~" not in text:
        return None
    lines = _LINE_END.split(text)
    block, ended = _read_blocks(lines, bare_opens=False)
    if not ended:
        other, ended = _read_blocks(lines, bare_opens=True)
        if ended and other is not None and any(line.strip() and not _PROSE.match(line) for line in other):
            block = other  # had it been prose, it would stand between two blocks
    return None if block is None else "".join(line + "\n" for line in block)


def _read_blocks(lines: list[str], bare_opens: bool) -> tuple[list[str] | None, bool]:
    """(lines of the last block, whether it has an end, doubtful or not).

    bare_opens: a bare fence that comes behind a doubtful end opens the next block.
    """
    block: list[str] | None = None
    lists: list[int] = []
    fence: _Fence | None = None
    for line in lines:
        indent, body = _split_indent(line)
        if fence is None:
            fence = _opening(indent, body, lists) if body else None
            continue
        near = indent - fence.item_column <= 3
        if fence.late and (named := _NAMED_FENCE.match(body)) is not None:
            # The backticks were those of "wrap it in ```": this line opens a block.
            fence = _Fence(named.group(1), indent, fence.item_column)
        elif not near or body[:3] != fence.marker[:3]:
            fence.add(line, indent, body)
        elif fence.doubt is not None and (fence.names_language(body) or (bare_opens and body.rstrip() == fence.marker)):
            # The doubtful end was one: this line opens a block.
            run = body[: len(body) - len(body.lstrip(fence.marker[0]))]
            block, fence = fence.content(), _Fence(run, indent, fence.item_column)
        elif _closes(body, fence.marker):
            block, fence = fence.lines, None
        else:
            fence.add(line, indent, body)
    if fence is None:
        return block, True
    content = fence.content()
    if fence.doubt is None and content and not content[-1]:
        content = content[:-1]  # no line behind the last line break
    blank = not any(map(str.strip, content))
    if fence.late and (blank or (not fence.named and block is not None)):
        return block, True  # backticks at the end of some last words open nothing
    return (block if blank and block is not None else content), fence.doubt is not None


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
        return _Fence(match.group(1) or match.group(3), indent, item_column)
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
