"""Finished groups that wait for training: first in, first out, and none older than a bound."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrlhf.types import Rollout, RolloutGroup


@dataclass(frozen=True)  # no slots: before Python 3.11.4 they come with a __setstate__ that displaces this one
class Waiting:
    """A finished group, and the pass over the prompt set that its prompt was drawn in.

    Its samples are read through once, when it is made: it is asked for its age whenever the training loop wakes up.
    """

    group: RolloutGroup
    episode: int
    _versions: Sequence[tuple[int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_versions", [own for rollout in self.group.rollouts if (own := _policies(rollout))])

    def __getstate__(self) -> tuple[RolloutGroup, int]:
        """For a checkpoint: the rest follows from these two."""
        return self.group, self.episode

    def __setstate__(self, state: Sequence[Any]) -> None:
        """Checkpoints of earlier versions hold the same two, some with more behind them."""
        for name, value in zip(("group", "episode"), state, strict=False):
            object.__setattr__(self, name, value)
        self.__post_init__()

    @property
    def prompt_id(self) -> int:
        return self.group.rollouts[0].prompt.prompt_id

    def staleness(self, version: int) -> int:
        """Updates between the oldest policy that sampled one of its tokens and the policy `version`."""
        return version - min((oldest for oldest, _ in self._versions), default=version)

    def mixed_rate(self) -> float:
        """Share of its samples whose tokens are of more than one policy."""
        return sum(oldest < newest for oldest, newest in self._versions) / len(self.group.rollouts)


def _policies(rollout: Rollout) -> tuple[int, int] | None:
    """The oldest and the newest policy that sampled a token of it; None where none did."""
    sampled = [segment.policy_versions[segment.action_mask] for segment in rollout.segments]
    found = [versions for versions in sampled if versions.size]
    return (int(min(own.min() for own in found)), int(max(own.max() for own in found))) if found else None


def staleness_metrics(taken: Sequence[Waiting], version: int) -> dict[str, float]:
    """How old the groups of a batch are for the policy `version`: async/staleness_mean, staleness_max, mixed_rate."""
    staleness = [waiting.staleness(version) for waiting in taken]
    return {
        "async/staleness_mean": sum(staleness) / max(1, len(staleness)),
        "async/staleness_max": float(max(staleness, default=0)),
        "async/mixed_rate": sum(waiting.mixed_rate() for waiting in taken) / max(1, len(taken)),
    }


@dataclass(slots=True)
class Batch:
    """What one training step gets."""

    taken: list[Waiting]
    dropped: list[RolloutGroup]  # by the filter, since the batch before
    metrics: dict[str, float]

    @property
    def groups(self) -> list[RolloutGroup]:
        return [waiting.group for waiting in self.taken] + self.dropped


class WorkBuffer:
    """The buffer between generation and training. Whoever fills it keeps it within its bound."""

    def __init__(self, waiting: Iterable[Waiting] = ()) -> None:
        self._waiting = deque(waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, group: Waiting) -> None:
        self._waiting.append(group)

    def take(self, count: int) -> list[Waiting]:
        """The `count` oldest, fewer if there are not so many."""
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def discard_stale(self, version: int, bound: int) -> list[Waiting]:
        """Remove and return what would be trained on more than `bound` updates after it was sampled."""
        stale = [group for group in self._waiting if group.staleness(version) > bound]
        if stale:
            self._waiting = deque(group for group in self._waiting if group.staleness(version) <= bound)
        return stale

    def waiting(self) -> list[Waiting]:
        """What is in it, oldest first."""
        return list(self._waiting)
