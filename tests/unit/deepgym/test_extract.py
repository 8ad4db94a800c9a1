"""Code extraction against CommonMark's examples, a peer parser, and what chat models write."""

import random
import time

import pytest
from markdown_it import MarkdownIt

from deepgym.extract import MAX_BUNDLE_FILES, extract_code, split_bundle, strip_special_tokens


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("no fence at all", "no fence at all"),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("``` python\nx = 1\n```", "x = 1\n"),
        ("```python:file.py {a=b}\nx = 1\n```", "x = 1\n"),
        ("```\nfirst\n```\ntext\n```py\nlast\n```\nend", "last\n"),
        ("```py\r\nx = 1\r\ny = 2\r\n```\r\n", "x = 1\ny = 2\n"),
        ("~~~\nx\n~~~", "x\n"),
        ("~~~ a `b`\nx\n~~~", "x\n"),  # tilde fences may have backticks behind them
        ("``` a`b\nx\n", "``` a`b\nx\n"),  # backtick fences may not: no fence
        ("````\n```\nx\n```\n````", "```\nx\n```\n"),  # a shorter run does not close
        ("```\nx\n`````", "x\n"),  # a longer one does
        ("```\nx\n~~~\ny\n```", "x\n~~~\ny\n"),
        ("```\nx\n``` y\n```", "x\n``` y\n"),  # no words may follow a closing fence
        ("```python\nx = 1\n", "x = 1\n"),  # unclosed: to the end
        ("text\n```python\nx = 1", "x = 1\n"),
        ("```\na\n```\n\n```py\n```", ""),  # the last block is empty, and it is the last
        ("```\na\n```\n\n```py\n", "a\n"),  # never closed and empty: a stray fence
        ("```\na\n```\n```", "a\n"),
        ("```py\n", ""),
        ("   ```\n   x\n     y\n   ```", "x\n  y\n"),  # indented fence: as much indent goes from each line
        ("    ```\n    x\n    ```", "    ```\n    x\n    ```"),  # four spaces: no fence
        ('```python\ns = """\n    ```\n"""\n```', 's = """\n    ```\n"""\n'),  # four spaces do not close
        ("1. Do:\n   ```py\n   if x:\n       y\n   ```\n2. Done.", "if x:\n    y\n"),
        ("10. Do:\n    ```py\n    x\n    ```", "x\n"),
        ("- ```py\n  x\n  ```", "x\n"),
        ("<answer>\n```py\nx\n```\n</answer>", "x\n"),  # an HTML block would hide it
        ("```\n\x0cx\u2028y\n```", "\x0cx\u2028y\n"),  # only CR and LF end lines
        ("```py\nx\n```<|im_end|>", "x\n"),
        ("```py\nx\n```\n<|eot_id|></s> \n", "x\n"),
        ("", ""),
    ],
)
def test_the_last_fenced_block_else_the_whole_response(response, code):
    assert extract_code(response) == code


@pytest.mark.parametrize(
    "response",
    [
        "<answer>\n```python\nCODE\n```</answer>",
        "<answer>```python\nCODE\n```</answer>",
        "I wrap it in ```\n\n```python\nCODE\n```",
        "I will close the block with ```\n\nFinal:\n\n```python\nCODE\n```\n",
        "```python\nCODE\n```\nI hope it helps ```\nBye\n",
        "Answer: ```python\nCODE\n```",
        "Answer:``` \nCODE\n```",
        "Here is the code:```python\nCODE\n```\nDone.",
        "1. Answer: ```python\n   CODE\n   ```",
        "<think>\n```python\nx\n```</think>\n```python\nCODE\n```",
        "```python\nCODE\n```.",
        "```python\nCODE\n```[EOS]",
        "```python\nCODE\n```</s>",
        "```python\nCODE\n```<s>",
        "```python\nCODE\n```[/INST]",
        "```python\nCODE\n```<|im_end|>",
        "```python\nCODE\n``` </answer>",
        "```python\nCODE\n```<｜end▁of▁sentence｜>\nmore",
        "\ufeff```python\nCODE\n```",
        "\u200b```python\nCODE\n```",
        "```python\nCODE\n```\nThat is all. ```\n",  # nothing follows
        # Endings that CommonMark does not know.
        "```python\nCODE```",
        "```python\nCODE```<|im_end|>",
        "```python\nCODE```</answer>",
        "```python\nCODE```\nDone.",
        "\\boxed{```python\nCODE\n```}",
        "**```python\nCODE\n```**",
        '"```python\nCODE\n```"',
        '{"answer": "```python\nCODE\n```"}',
        "```python\nCODE\n``` This works because of DP.",
        "```python\nCODE\n``` This uses `dp`.",
        "```python\nCODE\n```This works.",
        "```python\nCODE\n```。",
        "```python\nCODE\n```”",
        "```python\nCODE\n```-- end",
        "```python\nCODE\n```$",
        "```python\nCODE\n``` ✅",
        "```python\nCODE\n```---\nMore.",
        "```python\nCODE\n```###  Explanation\nIt adds.",
        "```python\nCODE\n```\u00a0",
        "```python\nCODE\n```\u200b",
        "```python\nCODE\n```\n```",
        "<think>\n```python\ndef f(\nHmm, no.\n</think>\n\n```python\nCODE\n```",
        "<think>\n```\ndef f(\nHmm, no.\n</think>\n\n```\nCODE\n```",
        "```python\ndef f(\n``` This is wrong.\n\n```python\nCODE\n```",
        "```python\ndef f(\n``` This is wrong.\n\n```\nCODE\n```\nDone.",
        "```python\ndef f(\n``` This is wrong.\n\n```python\nCODE\n``` This is right.",
        "```python\nx```\nBetter:\n```python\nCODE```",
        "```python\nx```\nwait, no.\n```python\nCODE```\nThis works.",
        "```python\nx\n```.\nNow final:\n\n```\nCODE\n```",
    ],
)
def test_fences_as_models_write_them(response):
    assert extract_code(response) == "CODE\n"


@pytest.mark.parametrize(
    "code",
    [
        's = """\n```.\n"""\n',
        's = """\n``` This works.\n"""\n',
        's = """\n```python\n{code}\n```"""\nt = """\n```python\n{code}\n```"""\n',  # a pair each
        's = """Wrap it in ```\nand end."""\n',
        's = """\n</think>\n"""\n',
        's = """<think>\nno\n</think>\n```python\n{code}\n```"""\n',
        'x = "```"\n',
        "=== README.md ===\nUse `x` or ```x```.\n=== main.py ===\nx = 1\n",
    ],
)
@pytest.mark.parametrize("behind", ["", "\nDone.\n", "\n\n```python\n"])
def test_a_proper_closing_fence_wins_over_a_doubtful_one(code, behind):
    """CommonMark closes these blocks at their last line, whatever their strings hold."""
    assert extract_code(f"Here:\n```python\n{code}```{behind}") == code


@pytest.mark.parametrize(
    "draft",
    [
        "```python\ns = s[3:]  # opening ```\nold()\n```\n",
        "```python\nT = '''\n``` some text\n'''\n```\n",
        "```python\ns = x```\nold()\n```\n",
        "~~~python\nx\n</think>\n~~~\n",
        "```python\nx\n</think>\n```\n",
        "```python\nx\n``` Some text.\n```\n",
    ],
)
@pytest.mark.parametrize("end", ["", "```", "```\nDone.\n"])
def test_a_doubtful_line_in_a_closed_draft_leaves_the_final_block_alone(draft, end):
    """CommonMark closes the draft at its last line, so the fence behind "Final version:" opens the last block."""
    assert extract_code(f"Draft:\n{draft}Final version:\n```\nnew()\n{end}") == "new()\n"


@pytest.mark.parametrize(
    "code",
    [
        "def f(s):\n    # Remove trailing ```\n    return s.rstrip('`')\n",
        "def f(s):\n    s = s[3:]  # drop the leading ```\n    return s\n",
        "s = s[3:]  # drop the leading ```\n",
        "int x = 1; // drop the leading ```\n",
        'x = "wrap it in ```\n',
        'text = """\nuse ```\n"""\nx = 1\n',
        "s = x ```\nFoo(1)\n",
        "s = x ```\nFoo  = 1\n",
        "cat <<'EOF' > a.md\n``` hello world ```\nEOF\ncat a.md\n",
        "cat <<'EOF' > a.md\n``` hello world\nEOF\ncat a.md\n",
        'def f(t):\n    s = """\n    ``` note this\n    """\n    return s\n',
        's = """\n```.\n"""\nx = 1\n',
        's = """\n</think>\n"""\nx = 1\n',
        's = """\n```python\n{code}\n```"""\n',
        "-a\n+b ```\n c\n",
    ],
)
@pytest.mark.parametrize("before", ["", "Draft:\n```python\nold()\n```\nFinal:\n"])
def test_code_that_is_never_closed_is_not_cut_at_a_doubtful_line(code, before):
    """Code follows the line, or it is a comment, or a string is open before its backticks: all of it is the answer."""
    assert extract_code(f"{before}```python\n{code}") == code


@pytest.mark.parametrize(
    "text",
    [
        "> Answer: ```python\nx\n",  # a quote
        "Write `x` and ```\nx\n",  # an earlier backtick
        "    s = ```\nx\n",  # indented code
        "Answer: ```two words\nx\n",
        "Answer: ~~~\nx\n",
    ],
)
def test_a_line_of_text_that_opens_no_fence(text):
    assert extract_code(text) == text


@pytest.mark.parametrize(
    "unit", ["a ", "a```", "a```b c", "`` ", "\n", "\na", "\na```x `", "\n- a", "<a```\n", "   \t", "```\n", "```a\n"]
)
@pytest.mark.parametrize("opening", ["", "a```\n", "a ```\n" + "\n" * 100_000 + "y\n"])
def test_two_million_characters_take_linear_time(unit, opening):
    text = (opening + unit * 2_000_000)[:2_000_000]
    start = time.process_time()
    extract_code(text)
    assert time.process_time() - start < 5  # a bound for a busy machine; quadratic time would take hours


@pytest.mark.parametrize(
    ("response", "kept"),
    [
        ("x</s>", "x"),
        ("x<|im_end|>\n<|endoftext|>\n", "x"),
        ("x<｜end▁of▁sentence｜>", "x"),
        ("x<eos><pad><pad>", "x"),
        ("x<end_of_turn>\n", "x"),
        ("x<|im_end|>y", "x<|im_end|>y"),  # not at the end
        ("if a <b|> c", "if a <b|> c"),
        ("x \n", "x \n"),  # no token: white space stays
        ("</s>", ""),
    ],
)
def test_special_tokens_leave_the_end_only(response, kept):
    assert strip_special_tokens(response) == kept


def test_fences_agree_with_a_peer_parser():
    """markdown-it-py on random line soup without containers (lists and quotes are where our reading differs)."""
    peer = MarkdownIt("commonmark").disable(["html_block", "reference"])
    rng = random.Random(5)
    atoms = ["```", "````", "~~~", "~~~~", "```python", "~~~ py `x`", "``` a`b", "  ```", "   ~~~", "    ```", "\t```"]
    atoms += ["a", "  b", "    c", "", "``` ", "```\t", "   ```py", "    ```py", "def f():", "\ta"]
    for _ in range(800):
        text = "\n".join(rng.choice(atoms) for _ in range(rng.randint(1, 8))) + rng.choice(["", "\n"])
        fences = [token for token in peer.parse(text) if token.type == "fence"]
        if len(fences) > 1 and not fences[-1].content.strip() and not text.splitlines()[fences[-1].map[0] + 1 :]:
            fences.pop()  # our reading: an empty block that the last line opens does not count
        expected = fences[-1].content if fences else text
        assert extract_code(text).rstrip("\n") == expected.rstrip("\n"), repr(text)


def test_a_bundle_is_split_at_its_headers():
    code = "intro\n=== main.py ===\nimport a\n\n\n=== lib/a.py ===\r\nx = 1"
    assert split_bundle(code) == {"main.py": "import a\n", "lib/a.py": "x = 1\n"}


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("x = 1", "no line of the form"),
        ("=== a ===\n=== a ===\n", "given twice"),
        ("=== ../a ===\n", "not a plain relative path"),
        ("=== /etc/passwd ===\n", "not a plain relative path"),
        ("=== a/./b ===\n", "not a plain relative path"),
        ("=== a//b ===\n", "not a plain relative path"),
        ("=== a\x00b ===\n", "not a plain relative path"),
        (f"=== {'a' * 101} ===\n", "not a plain relative path"),
        ("".join(f"=== f{i} ===\n" for i in range(MAX_BUNDLE_FILES + 1)), "more than 64 files"),
    ],
)
def test_a_bad_bundle_says_what_is_wrong(code, complaint):
    with pytest.raises(ValueError, match=complaint):
        split_bundle(code)
