"""One conversation as tokens: what was sampled stays as it was sampled, only new messages are tokenised.

    request 1:  ids(template(messages))                          -> sampled answer
    request 2:  request 1's ids + sampled ids + ids(what the template adds after that answer)

The second line holds only while the template leaves what went before as it was. `continued` finds that out by text; if
the template rewrote it, the conversation goes on in a trace of its own, with nothing sampled in its prompt.
"""

from collections.abc import Sequence

from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.rollout.openai_server.messages import Message, keys
from openrlhf.rollout.openai_server.template import ChatTemplate
from openrlhf.types import Completion


class Trace:
    """Grows by one answer per request of the same conversation."""

    def __init__(self, template: ChatTemplate, messages: Sequence[Message], tools_key: str) -> None:
        """ValueError if the template refuses the messages or makes nothing of them."""
        self._template = template
        self._tools_key = tools_key
        self._asked = list(messages)
        self._prompt_text = template.render(messages, open_answer=True)
        self._history: str | None = None  # the conversation with the last answer, as the template writes it
        self._answer: Message | None = None
        self._last_id = -1
        self.tokens = EpisodeTokens(template.ids(self._prompt_text))

    def answer(self, completion: Completion, message: Message) -> None:
        """Take in what was sampled and the message that the client was given for it."""
        self.tokens.act(completion)
        self._answer = message
        self._last_id = int(completion.token_ids[-1]) if len(completion.token_ids) else -1
        self._history = self._with_answer(message)

    def continued(self, messages: Sequence[Message], tools_key: str) -> list[int] | None:
        """The ids that `messages` add to this trace; None if they do not continue it. Changes nothing."""
        asked = self._joined(messages) if tools_key == self._tools_key else None
        if asked is None or self._history is None:
            return None
        text = self._template.render(asked, open_answer=True)
        end = self._template.turn_end(self._asked)
        if end is None or not text.startswith(self._history):
            return None
        return self._template.ids(self._after_last_id(end) + text[len(self._history) :])

    def proceed(self, messages: Sequence[Message], token_ids: Sequence[int]) -> None:
        """Go on with what `continued` has found."""
        asked = self._joined(messages)
        if asked is None:
            raise ValueError("these messages do not continue this conversation")
        self.tokens.observe(token_ids)
        self._asked = asked
        self._prompt_text = self._template.render(asked, open_answer=True)
        self._history = self._answer = None

    def _joined(self, messages: Sequence[Message]) -> list[Message] | None:
        """Our own copy of the messages so far with the new ones; None if they do not begin with the same.

        A client may write down an answer in another way (white space in arguments, text as parts); that must not change
        what the template makes of it.
        """
        if self._answer is None:
            return None
        known = [*self._asked, self._answer]
        if len(messages) <= len(known) or keys(messages[: len(known)]) != keys(known):
            return None
        return [*known, *messages[len(known) :]]

    def _with_answer(self, message: Message) -> str | None:
        """The conversation so far as the template writes it; None if that is not what the policy saw and sampled."""
        try:
            history = self._template.render([*self._asked, message], open_answer=False)
        except ValueError:  # the client has its answer; a next request hears what the template refuses
            return None
        return history if history.startswith(self._prompt_text + message.text.rstrip()) else None

    def _after_last_id(self, end: str) -> str:
        """The end of the turn without the part that was sampled: usually the policy ended its turn itself."""
        last = self._template.text([self._last_id], special=True) if self._last_id >= 0 else ""
        head, found, tail = end.partition(last) if last else (end, "", "")
        return tail if found and not head.strip() else end


def find_continued(
    traces: Sequence[Trace], messages: Sequence[Message], tools_key: str
) -> tuple[Trace, list[int]] | None:
    """The newest trace that the messages continue, with the ids they add; None if there is none."""
    for trace in reversed(traces):
        added = trace.continued(messages, tools_key)
        if added is not None:
            return trace, added
    return None
