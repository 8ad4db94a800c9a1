"""The tokens of one episode, exactly as the policy saw and sampled them.

    tokens = EpisodeTokens(prompt_token_ids)
    completion = await engine.generate(tokens.ids, sampling)
    tokens.act(completion)
    tokens.observe(feedback_token_ids)
    segment = tokens.segment()

Sampled ids enter as they are and are never decoded and tokenised again. Every other token has mask 0 and logprob 0.
Images enter as all of their tokens (`images.py`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openrlhf.types import Completion, EncodedImage, Segment, Turn


class EpisodeTokens:
    """Grows by actions of the policy and by tokens of the environment, and becomes a `Segment` at the end."""

    def __init__(self, prompt_token_ids: Sequence[int]) -> None:
        """ValueError for an empty prompt: nothing would predict the first action."""
        if not prompt_token_ids:
            raise ValueError("an episode needs at least one token before the first action")
        self._ids = [int(token) for token in prompt_token_ids]
        self._actions: list[tuple[int, Completion]] = []  # where each begins
        self._turns: list[Turn] = []

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> list[int]:
        """All token ids so far: the next request's prompt. A copy."""
        return self._ids.copy()

    @property
    def has_actions(self) -> bool:
        return bool(self._turns)

    def act(self, completion: Completion) -> None:
        """Append what the policy sampled. An empty completion is no action."""
        start, count = len(self._ids), len(completion.token_ids)
        if count == 0:
            return
        self._ids += completion.token_ids.tolist()
        self._actions.append((start, completion))
        self._turns.append(Turn(start, start + count))

    def observe(self, token_ids: Sequence[int]) -> None:
        """Append tokens of the environment."""
        self._ids += [int(token) for token in token_ids]

    def reward_last_turn(self, reward: float) -> None:
        """Give the last action a reward of its own; without any action there is none to give it to.

        An empty completion is no action: the reward of its step comes on top of the action's before it.
        """
        if self._turns:
            last = self._turns[-1]
            self._turns[-1] = replace(last, reward=reward if last.reward is None else last.reward + reward)

    def segment(self, images: Sequence[EncodedImage] | None = None) -> Segment:
        """The record: (L,) arrays of everything so far. `images`: those that the tokens show, in their order."""
        length = len(self._ids)
        action_mask = np.zeros(length, dtype=bool)
        logprobs = np.zeros(length, dtype=np.float32)
        versions = np.full(length, -1, dtype=np.int32)
        for start, completion in self._actions:
            span = slice(start, start + len(completion.token_ids))
            action_mask[span] = True
            logprobs[span] = completion.logprobs
            versions[span] = completion.policy_versions
        return Segment(
            token_ids=np.asarray(self._ids, dtype=np.int64),
            action_mask=action_mask,
            loss_mask=action_mask.copy(),
            logprobs=logprobs,
            policy_versions=versions,
            turns=tuple(self._turns),
            images=tuple(images or ()),
        )
