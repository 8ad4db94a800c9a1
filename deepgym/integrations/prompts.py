"""The response inside a query: what follows the prompt.

OpenRLHF sends prompt and response as one text, decoded from tokens. That text may differ from the prompt at the front:
a begin-of-text token stands before it, or the front of a prompt that was too long is missing. The end of the prompt is
always there, so it is what we look for.
"""

TAIL_CHARS = 256  # the end of the prompt that a query must contain
STRAY_CHARS = 64  # characters at the front of a query that may differ from the prompt: special tokens, a cut token
CANDIDATES = 32  # places that are compared with the prompt


def strip_prompt(query: str, prompt: str) -> str | None:
    """The response, or None where the query does not contain the end of the prompt.

    Of several places where the end of the prompt stands, the last one that the prompt leads up to is taken: a prompt
    may hold its own end twice, and a response that quotes it is led up to by other text.

    Example:
        >>> strip_prompt("<s>Add 1 and 2.\\n3", "Add 1 and 2.\\n")
        '3'
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    tail, head = prompt[-TAIL_CHARS:], prompt[:-TAIL_CHARS]
    place, best = query.find(tail), -1
    for _ in range(CANDIDATES):
        if place < 0:
            break
        if head.endswith(query[min(STRAY_CHARS, place) : place]):
            best = place
        place = query.find(tail, place + 1)
    if best < 0:
        best = query.rfind(tail)
    return query[best + len(tail) :] if best >= 0 else None
