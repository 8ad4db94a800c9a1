"""Which prompts come next. Exact across restarts: the order follows from seed and episode, the state is a position."""

import math
from typing import Any

from openrlhf.data.errors import DataError
from openrlhf.data.prompts import PromptSet
from openrlhf.data.stable_random import permutation
from openrlhf.types import Prompt

_VERSION = 1


class PromptLoader:
    """Draws every prompt exactly once per episode, in an order of its own for every episode.

    A draw never reaches over the end of an episode: the last one of an episode may be short. The order depends on
    `seed` and the episode alone, on no global generator and no number of workers.

        while prompts := loader.draw(8):            # [] when all episodes are over
            more = loader.draw(2, same_episode=True)  # replacements for filtered prompts, [] when none are left
    """

    def __init__(self, prompts: PromptSet, batch_size: int, seed: int, num_episodes: int) -> None:
        if batch_size < 1 or num_episodes < 1:
            raise ValueError(f"batch_size {batch_size} and num_episodes {num_episodes} must be at least 1")
        self._prompts = prompts
        self._batch_size = batch_size
        self._seed = seed
        self._num_episodes = num_episodes
        self._episode = 0
        self._position = 0
        self._order = permutation(len(prompts), seed, 0)

    @property
    def episode(self) -> int:
        """The episode of the latest draw, from 0."""
        return self._episode

    @property
    def remaining(self) -> int:
        """Prompts of this episode that were not drawn yet."""
        return len(self._prompts) - self._position

    @property
    def finished(self) -> bool:
        """Whether `draw` has nothing left in any episode."""
        return self.remaining == 0 and self._episode + 1 >= self._num_episodes

    @property
    def prompts_per_episode(self) -> int:
        return len(self._prompts)

    @property
    def batches_per_episode(self) -> int:
        """Draws of `batch_size` in one episode, a short last one included."""
        return math.ceil(len(self._prompts) / self._batch_size)

    def draw(self, n: int | None = None, *, same_episode: bool = False) -> list[Prompt]:
        """The next `n` prompts (default: batch_size), fewer at the end of an episode, [] when there are none.

        Where the episode is used up the next one is begun, unless `same_episode`.
        """
        count = self._batch_size if n is None else n
        if count < 1:
            raise ValueError(f"PromptLoader.draw: n must be at least 1, got {count}")
        if self.remaining == 0 and not same_episode and not self.finished:
            self._go_to(self._episode + 1, 0)
        drawn = self._order[self._position : self._position + count]
        self._position += len(drawn)
        return [self._prompts[index] for index in drawn.tolist()]

    def prompt(self, prompt_id: int) -> Prompt:
        """The prompt of that number, whether drawn or not."""
        return self._prompts[prompt_id]

    def state_dict(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "episode": self._episode,
            "position": self._position,
            "seed": self._seed,
            "num_prompts": len(self._prompts),
            "fingerprint": self._prompts.fingerprint,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the state was taken. Another batch size or number of episodes is fine.

        DataError if the prompts or the seed differ: the position would skip some prompts and repeat others.
        """
        if state["version"] != _VERSION:
            raise DataError(f"resume: loader state of version {state['version']}, this build reads {_VERSION}")
        if state["fingerprint"] != self._prompts.fingerprint:
            raise DataError(
                f"resume: the prompt set is not the one of the checkpoint ({len(self._prompts)} prompts now, "
                f"{state['num_prompts']} then); give the same dataset, template and keys, or start a new run"
            )
        if state["seed"] != self._seed:
            raise DataError(f"resume: seed {self._seed}, but the checkpoint's order came from seed {state['seed']}")
        self._go_to(state["episode"], state["position"])

    def _go_to(self, episode: int, position: int) -> None:
        self._episode = episode
        self._position = position
        self._order = permutation(len(self._prompts), self._seed, episode)
