"""Taking the answer's code out of a chat model's response.

Last fenced code block wins; without one the whole response is the code. Fences follow CommonMark 0.31, section 4.5
(https://spec.commonmark.org/0.31.2/#fenced-code-blocks), read line by line in linear time, as responses are hostile
and up to two million characters long (up to a second: call it off the event loop). Five readings are ours:

- a backtick fence with at most a language behind it also opens at the end of a line of other text, as in
  `Answer: ```python` and `<answer>```python`, if that line holds no earlier backtick and something follows it;
- a closing fence may have a tag, a special token or punctuation right behind it: "```</answer>", "```[EOS]", "```.";
- HTML blocks do not hide a fence, because models like to put one right behind a line such as `<answer>`;
- a fence indented inside a list item stays open until its closing fence, also when the code between them is not
  indented, as models often write it;
- a fence inside a block quote is quoted text, not the answer.
"""

import re

_SPECIAL_TOKEN = re.compile(r"<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\n]{1,64}｜>|</s>|<eos>|<pad>|<end_of_turn>")
_LINE_END = re.compile(r"\r\n|\n|\r")
_FENCE = re.compile(r"(`{3,})([^`]*)\Z|(~{3,})(.*)\Z", re.DOTALL)
_LATE_FENCE = re.compile(r"(?!>)[^`]*[^`\s]\s*(`{3,})([\w+-]*)\s*\Z")
_NAMED_FENCE = re.compile(r"(`{3,})[ \t]*\w[^`]*\Z")
_BEHIND_CLOSING = re.compile(r"[ \t]*</?[A-Za-z|｜]|[.,;:!)]|\[/?[A-Z]")
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


def _last_fenced_block(text: str) -> str | None:
    """The content of the last fenced code block; None when there is no opening fence."""
    if "```" not in text and "~~~" not in text:
        return None
    block: list[str] = []  # of the last fence seen
    found = False
    before: tuple[list[str], bool] | None = None  # both as they were when a fence behind text opened this block
    bare = False  # whether that fence names no language
    lists: list[int] = []  # content columns of the list items that are open
    marker, fence_indent, item_column = "", 0, 0  # of the fence that is open; marker "" when none is
    for line in _LINE_END.split(text):
        indent, body = _split_indent(line)
        if marker:
            named = _NAMED_FENCE.match(body) if before is not None else None
            if named is not None:
                # The backticks were those of "wrap it in ```": this line is what opens a block.
                marker, fence_indent, before, block = named.group(1), indent, None, []
            elif body[:3] == marker[:3] and indent - item_column <= 3 and _closes(body, marker):
                marker = ""
            else:
                block.append(_remove_indent(line, fence_indent) if fence_indent else line)
            continue
        if not body:
            continue
        while lists and indent < lists[-1]:
            lists.pop()
        if body[0] in _LIST_STARTS:
            indent, body = _enter_list_items(indent, body, lists)
        item_column = lists[-1] if lists else 0
        if indent - item_column > 3:
            continue
        match = _FENCE.match(body)
        late = _LATE_FENCE.match(body) if match is None and "```" in body else None
        if match is not None:
            marker, fence_indent, before = match.group(1) or match.group(3), indent, None
        elif late is not None:
            marker, fence_indent, before, bare = late.group(1), item_column, (block, found), not late.group(2)
        if marker:
            block, found = [], True
    if marker and before is not None and ((bare and before[1]) or not any(map(str.strip, block))):
        block, found = before  # backticks at the end of some last words open nothing
    elif marker and block and not block[-1]:
        block.pop()  # the text's final line break opens no further, empty line
    return "".join(line + "\n" for line in block) if found else None


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
