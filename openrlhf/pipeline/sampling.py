"""Dynamic sampling: groups that teach nothing are replaced by new prompts while the engines are still generating.

    start rollout.batch_size prompts
    while a group is in flight:
        take the next finished group; if the filter drops it, start one new prompt of this episode

Accepted and in flight together are never more than the batch, so nothing accepted is ever thrown away. When the episode
has no prompt left, what is in flight is waited for, and the batch is as large as it became.
"""

from collections.abc import Callable, Iterator, Sequence

from openrlhf.cluster.specs import GroupRequest
from openrlhf.data.ledger import PromptState
from openrlhf.pipeline.collect import next_group
from openrlhf.pipeline.fate import refused
from openrlhf.pipeline.job import Job
from openrlhf.rl.advantages.registry import estimator
from openrlhf.rl.filtering import FilterResult, apply_dynamic_filter
from openrlhf.types import Prompt, RolloutGroup

Ask = Callable[[Sequence[Prompt]], list[GroupRequest]]


def sample_dynamically(job: Job, prompts: Sequence[Prompt], ask: Ask) -> list[RolloutGroup]:
    """Every group that was generated, dropped ones too, in the order in which their prompts were drawn.

    The prompts of dropped groups are settled in the ledger; those of the others are buffered. With full determinism the
    replacements start in rounds, when every group before them is done: batches then form the same way each time.
    """
    paused = job.config.train.full_determinism_enable
    order: dict[str, int] = {}
    finished: list[RolloutGroup] = []

    def start(drawn: Sequence[Prompt]) -> None:
        requests = ask(drawn)
        order.update((request.group_id, place) for place, request in enumerate(requests, start=len(order)))
        move(job, drawn, PromptState.IN_FLIGHT)
        job.cluster.engines.submit(requests, paused=paused)

    start(prompts)
    while job.cluster.engines.in_flight:
        done = list(_take(job, everything=paused))
        finished += done
        dropped = sum(not _settle(job, group) for group in done)
        replacements = draw_more(job, dropped) if dropped else []
        if replacements:
            start(replacements)
    return sorted(finished, key=lambda group: order[group.group_id])


def filter_groups(job: Job, groups: Sequence[RolloutGroup]) -> FilterResult:
    """What dynamic filtering makes of finished groups."""
    algo = job.config.algo
    job.scores.see(groups, algo.dynamic_filtering_range)
    return apply_dynamic_filter(groups, algo.dynamic_filtering_range, estimator(algo.advantage.estimator).grouped)


def draw_more(job: Job, count: int) -> list[Prompt]:
    """Up to `count` more prompts of the current episode."""
    drawn = job.loader.draw(count, same_episode=True)
    job.ledger.draw(job.loader.episode, [prompt.prompt_id for prompt in drawn])
    return drawn


def move(job: Job, prompts: Sequence[Prompt], state: PromptState) -> None:
    """Tell the ledger where prompts of the current episode are now."""
    job.ledger.move(job.loader.episode, [prompt.prompt_id for prompt in prompts], state)


def _take(job: Job, everything: bool) -> Iterator[RolloutGroup]:
    """The next finished group, or all that are in flight."""
    yield next_group(job)
    while everything and job.cluster.engines.in_flight:
        yield next_group(job)


def _settle(job: Job, group: RolloutGroup) -> bool:
    """Whether the filter keeps a group; its prompt is buffered, filtered or failed from now on."""
    kept = bool(filter_groups(job, [group]).kept)
    move(job, [group.rollouts[0].prompt], PromptState.BUFFERED if kept else refused(group))
    return kept
