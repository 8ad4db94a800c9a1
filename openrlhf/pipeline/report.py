"""What one step has measured, and writing it down."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from openrlhf.pipeline.job import Job
from openrlhf.track.rollout_store import TrainedSample, TrainedSamples
from openrlhf.types import Experience, RolloutGroup


@dataclass(slots=True)
class StepReport:
    """What one step has measured so far."""

    metrics: dict[str, float] = field(default_factory=dict)
    groups: list[RolloutGroup] = field(default_factory=list)  # all that were generated, kept or not
    policy_trained: bool = False  # the engines then need its weights


def write_down(job: Job, kept: Sequence[RolloutGroup], experience: Experience | None, report: StepReport) -> None:
    """The step is over: log it, and keep some of its samples."""
    report.metrics |= job.clock.lap() | job.ledger.metrics()
    job.tracker.log(job.step, report.metrics)
    if job.step % job.config.logger.logging_steps == 0:
        job.tracker.say(f"  {job.ledger.summary()}")
    trained = {} if experience is None else trained_samples(kept, experience)
    job.tracker.store_rollouts(job.step, report.groups, trained)


def trained_samples(kept: Sequence[RolloutGroup], experience: Experience) -> TrainedSamples:
    """What training knows of each sample; rows of the experience are in the order of the kept segments."""
    arrays = {
        "advantages": experience.advantages,
        "train_logprobs": experience.old_logprobs,
        "ref_logprobs": experience.ref_logprobs,
        "values": experience.values,
    }
    samples: dict[str, TrainedSample] = {}
    row = 0
    for rollout in (rollout for group in kept for rollout in group.rollouts):
        own = range(row, row + len(rollout.segments))
        streams = [
            {name: array[row, : len(segment.token_ids)] for name, array in arrays.items() if array is not None}
            for segment, row in zip(rollout.segments, own, strict=True)
        ]
        if own:
            samples[rollout.sample_id] = TrainedSample(float(experience.rewards[row]), streams)
        row += len(own)
    return samples
