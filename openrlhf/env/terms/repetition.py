"""How much of a text says what stood in it before."""

import re

import numpy as np

# Letters and digits together are a word; of scripts without spaces each character is one.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
MAX_CHARS = 200_000  # of a longer text only the end is looked at


def repeatness(text: str) -> float:
    """The share of substrings (by position) that stood earlier in the text: 2 sum(LCP) / (n (n + 1)), in [0, 1).

    LCP are the longest common prefixes of neighbours in the sorted suffixes; n characters have n (n + 1) / 2
    substrings, and sum(LCP) of them are repetitions.

    Example: `aaaa` -> 0.6 (4 of its 10 substrings are distinct).
    """
    codes = np.frombuffer(text[-MAX_CHARS:].encode("utf-32-le", errors="replace"), dtype=np.uint32)
    n = len(codes)
    if n < 2:
        return 0.0
    order, rank = _suffix_array(codes)
    return 2.0 * _sum_lcp(codes.tolist(), order.tolist(), rank.tolist()) / (n * (n + 1))


def repetition(text: str) -> float:
    """1 - distinct / all groups of three words in a row; 0 for fewer than three words.

    Example: `one two three one two three` -> 0.25 (four groups, three of them distinct).
    """
    words = _WORD.findall(text)
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return 1.0 - len(set(triples)) / len(triples) if triples else 0.0


def _suffix_array(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(suffixes in order, the place of each), by doubling prefixes (Manber and Myers 1993): O(n log^2 n)."""
    n = len(codes)
    rank = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    length = 1
    while True:
        behind = np.full(n, -1, dtype=np.int64)
        behind[: n - length] = rank[length:]
        key = rank * (n + 1) + behind + 1
        order = np.argsort(key, kind="stable")
        steps = np.concatenate([[0], np.cumsum(key[order][1:] != key[order][:-1])])
        rank = np.empty(n, dtype=np.int64)
        rank[order] = steps
        if steps[-1] == n - 1:
            return order, rank
        length *= 2


def _sum_lcp(codes: list[int], order: list[int], rank: list[int]) -> int:
    """Sum of the common prefixes of neighbours (Kasai et al. 2001): O(n)."""
    n, total, height = len(codes), 0, 0
    for start in range(n):
        if rank[start] == 0:
            height = 0
            continue
        other = order[rank[start] - 1]
        while start + height < n and other + height < n and codes[start + height] == codes[other + height]:
            height += 1
        total += height
        height = max(0, height - 1)
    return total
