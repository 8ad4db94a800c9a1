"""The chat template as this server uses it: to text, and from text to ids with no special tokens but the template's."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from openrlhf.env.task_rewards import special_tokens
from openrlhf.rollout.openai_server.messages import Message
from openrlhf.tool_arguments import rendered

_MARK = "\u2063answer\u2063"  # invisible separators: no template writes them by itself


class ChatTemplate:
    """Renders one conversation style: a tokenizer, and by `with_tools` the tools of a request.

    Templates of vision-language models often take a message's content as a list of parts, and print nothing of a
    string; which form this one takes is tried once.
    """

    def __init__(self, tokenizer: Any) -> None:
        """ValueError for a template that prints a user's words in neither form, or that there is none."""
        self._tokenizer = tokenizer
        self._tools: list[dict[str, Any]] | None = None
        self._parts = False
        if not tokenizer.chat_template:
            raise ValueError("the model has no chat template, which the OpenAI-style server writes its prompts with")
        if not self._prints_content():
            self._parts = True
            if not self._prints_content():
                raise ValueError(
                    "the model's chat template prints nothing of a user's message, neither of content as a string nor "
                    "as parts: the policy would see empty prompts; put a working template into the model's folder"
                )

    def with_tools(self, tools: Sequence[dict[str, Any]]) -> "ChatTemplate":
        """The same template with tools among what it writes."""
        template = copy(self)
        template._tools = list(tools) or None
        return template

    def render(self, messages: Sequence[Message], *, open_answer: bool) -> str:
        """`open_answer`: end with the beginning of the assistant's turn. ValueError if the template refuses."""

        def made(shown: list[dict[str, Any]]) -> Any:
            return self._tokenizer.apply_chat_template(
                shown, tools=self._tools, tokenize=False, add_generation_prompt=open_answer
            )

        try:
            text = rendered(made, [message.for_template(self._parts) for message in messages])
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

    def without_special(self, text: str) -> str:
        """The text without the special tokens that are written in it."""
        for token in sorted(special_tokens(self._tokenizer), key=len, reverse=True):
            text = text.replace(token, "")
        return text

    def ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, token_ids: Sequence[int], *, special: bool) -> str:
        return str(
            self._tokenizer.decode(list(token_ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False)
        )

    def _prints_content(self) -> bool:
        try:
            return _MARK in self.render([Message(role="user", content=_MARK)], open_answer=False)
        except ValueError:
            return False
