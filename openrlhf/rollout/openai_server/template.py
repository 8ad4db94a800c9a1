"""The chat template as this server uses it: to text, and from text to ids with no special tokens but the template's."""

from collections.abc import Sequence
from typing import Any

from openrlhf.rollout.openai_server.messages import Message

_MARK = "\u2063answer\u2063"  # invisible separators: no template writes them by itself


class ChatTemplate:
    """Renders one conversation style: a tokenizer with the tools of a request."""

    def __init__(self, tokenizer: Any, tools: Sequence[dict[str, Any]] = ()) -> None:
        self._tokenizer = tokenizer
        self._tools = list(tools) or None

    def render(self, messages: Sequence[Message], *, open_answer: bool) -> str:
        """`open_answer`: end with the beginning of the assistant's turn. ValueError if the template refuses."""
        shown = [message.for_template() for message in messages]
        try:
            text = self._tokenizer.apply_chat_template(
                shown, tools=self._tools, tokenize=False, add_generation_prompt=open_answer
            )
        except Exception as error:  # a template is a program of the model's author and may raise anything
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"the chat template refused the messages: {reason}") from error
        return str(text)

    def opening(self) -> str:
        """What opens the assistant's turn, without white space around it; empty where it cannot be told."""
        ask = [Message(role="user", content=_MARK)]
        closed, opened = self.render(ask, open_answer=False), self.render(ask, open_answer=True)
        return opened.removeprefix(closed).strip() if opened.startswith(closed) else ""

    def turn_end(self, before: Sequence[Message]) -> str | None:
        """What the template writes between an assistant's content and the next message; None if it cannot be told."""
        marked = self.render([*before, Message(role="assistant", content=_MARK)], open_answer=False)
        _, found, end = marked.rpartition(_MARK)
        return end if found else None

    def ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, token_ids: Sequence[int], *, special: bool) -> str:
        return str(
            self._tokenizer.decode(list(token_ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False)
        )
