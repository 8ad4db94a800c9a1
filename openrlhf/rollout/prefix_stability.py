"""Does a chat template leave earlier turns as they were when the conversation goes on?

Many templates do not: they drop the reasoning of earlier answers, or write tool calls anew. Then the text before a
later turn is not what the policy saw and sampled, and the two must not share one token trajectory. The OpenAI-style
server opens a new segment where that happens; the check here says beforehand that it will.
"""

import logging
from typing import Any

logger = logging.getLogger(__name__)

_ASK = {"role": "user", "content": "first question"}
_ASK_AGAIN = {"role": "user", "content": "second question"}
_OPEN, _CLOSE = "<think>", "</think>"


def rewritten_history(tokenizer: Any) -> str | None:
    """What the tokenizer's template changes about an answer once another message follows; None: nothing.

    Two answers are tried: a plain one, and one with reasoning in `<think>` tags. A template that the generation prompt
    leaves inside `<think>` is given the answer as a policy would continue it.
    """
    opened = _render(tokenizer, [_ASK])
    if opened is None:
        return "it refuses a conversation of one user message"
    reasoning = "\na thought\n" + _CLOSE + "\n\nfirst answer"
    reasoning = reasoning if opened.rstrip().endswith(_OPEN) else _OPEN + reasoning
    for answer, what in (("first answer", "an earlier answer"), (reasoning, "the reasoning of an earlier answer")):
        after = _render(tokenizer, [_ASK, {"role": "assistant", "content": answer}, _ASK_AGAIN])
        if after is None:
            return "it refuses a second user message"
        if not after.startswith(opened + answer):
            return f"it rewrites {what}"
    return None


def warn_about_rewritten_history(tokenizer: Any) -> None:
    """Say once what the template does; a tokenizer without one has nothing to rewrite."""
    found = rewritten_history(tokenizer) if tokenizer.chat_template else None
    if found:
        logger.warning(
            "the chat template is not prefix-stable: %s. An agent that sends whole conversations (the OpenAI-style "
            "server) gets a new trajectory segment wherever that happens",
            found,
        )


def _render(tokenizer: Any, messages: list[dict[str, Any]]) -> str | None:
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception:  # a template is a program of the model's author and may refuse with any exception
        return None
