"""What one step has measured, and writing it down."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from openrlhf.pipeline.job import Job
from openrlhf.track.rollout_store import TokenStreams
from openrlhf.types import Experience, RolloutGroup


@dataclass(slots=True)
class StepReport:
    """What one step has measured so far."""

    metrics: dict[str, float] = field(default_factory=dict)
    groups: list[RolloutGroup] = field(default_factory=list)  # all that were generated, kept or not
    policy_trained: bool = False  # the engines then need its weights


def write_down(job: Job, kept: Sequence[RolloutGroup], experience: Experience | None, report: StepReport) -> None:
    """The step is over: log it, and keep some of its samples."""
    job.step += 1
    report.metrics |= job.clock.lap()
    job.tracker.log(job.step, report.metrics)
    streams = {} if experience is None else token_streams(kept, experience)
    job.tracker.store_rollouts(job.step, report.groups, streams)


def token_streams(kept: Sequence[RolloutGroup], experience: Experience) -> TokenStreams:
    """What training knows of each sample's tokens; rows of the experience are in the order of the kept segments."""
    arrays = {"advantages": experience.advantages, "train_logprobs": experience.old_logprobs}
    rows = iter(range(len(experience)))
    return {
        rollout.sample_id: [
            {name: array[row, : len(segment.token_ids)] for name, array in arrays.items() if array is not None}
            for segment, row in zip(rollout.segments, rows, strict=False)
        ]
        for group in kept
        for rollout in group.rollouts
    }
