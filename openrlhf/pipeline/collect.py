"""Taking finished groups from the engines, whatever becomes of an engine in between."""

from openrlhf.pipeline.job import Job
from openrlhf.pipeline.weights import revive
from openrlhf.types import RolloutGroup

_POLL = 1.0  # seconds after which a loop that waits for groups looks for engines that wait for weights


def next_group(job: Job) -> RolloutGroup:
    """The next finished group; engines that die in the meantime are replaced and brought up to date.

    Raises:
        ClusterError: of the engines. UngradedAbort, as `take_group`.
    """
    while True:
        revive(job)
        group = take_group(job, _POLL)
        if group is not None:
            return group


def take_group(job: Job, within: float) -> RolloutGroup | None:
    """The next finished group, if one finishes within so many seconds.

    Raises:
        UngradedAbort: too many samples in a row have no verdict; where reward models judge, they are not asked yet.
    """
    result = job.cluster.engines.next_group(within=within)
    if result is None:
        return None
    group: RolloutGroup = result.group
    if job.cluster.reward is None:
        job.verdicts.see(group)
    return group
