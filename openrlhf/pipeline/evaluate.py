"""Evaluation on held-out prompts, with the same executors and reward source as training."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from openrlhf.cluster.specs import GroupRequest
from openrlhf.pipeline.best_metric import ALWAYS, pass_name, pass_names
from openrlhf.pipeline.grading import grade
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.sleep import engines_awake
from openrlhf.pipeline.stages import generate, group_requests
from openrlhf.types import RolloutGroup, SamplingParams, Status

Generate = Callable[[Sequence[GroupRequest]], list[RolloutGroup]]


@dataclass(slots=True)
class EvaluationInFlight:
    """Requests of an evaluation beside training samples, and the groups that have come back."""

    requests: Sequence[GroupRequest]
    submitted: bool = False
    groups: dict[str, RolloutGroup] = field(default_factory=dict)


class Evaluations:
    """When a run is evaluated: every eval.steps-th step, with eval.at_start before the first, and after the last one
    in either case. Results are logged; that of the step after which a run is resumed is made if metrics.jsonl has none:
    the run was interrupted in it, or evaluates other sources or another number of samples now. `sample` as for
    `evaluate`.
    """

    def __init__(self, job: Job, sample: Generate | None = None) -> None:
        self._job, self._sample = job, sample
        self._every, self._at_start = job.config.eval.steps, job.config.eval.at_start
        self._evaluated: int | None = None  # the newest step that was

    def at_start(self) -> dict[str, float]:
        """With eval.at_start before the first step; of a resumed run the numbers of the last one, as `after_step`."""
        if self._job.step == 0:
            return self._run() if self._at_start else {}
        return self.after_step()

    def after_step(self) -> dict[str, float]:
        """The numbers of this step, if it is one to be evaluated, else none."""
        return self._run() if self._every > 0 and self._job.step % self._every == 0 else {}

    def at_end(self) -> dict[str, float]:
        """Those of the last step, unless it has been evaluated already."""
        wanted = (self._every > 0 or self._at_start) and self._job.step > 0
        return self._run() if wanted and self._evaluated != self._job.step else {}

    def _run(self) -> dict[str, float]:
        self._evaluated = self._job.step
        if recorded := self._recorded():
            return recorded
        found = evaluate(self._job, self._sample)
        if found:
            self._job.tracker.log(self._job.step, found)
        return found

    def _recorded(self) -> dict[str, float]:
        """What is on record of this step, if it has all scores that today's evaluation gives; without other scores."""
        if self._job.eval_prompts is None:
            return {}
        scores = pass_names(self._job.eval_prompts, self._job.config.eval.n_samples_per_prompt)
        recorded = self._job.tracker.resumed_evaluation(self._job.step)
        if not recorded.keys() >= set(scores):
            return {}
        kept = {*scores, *(f"eval_{name}" for name in ALWAYS)}
        return {name: value for name, value in recorded.items() if name in kept}


def evaluate(job: Job, sample: Generate | None = None) -> dict[str, float]:
    """Sample every evaluation prompt eval.n_samples_per_prompt times; training state is not touched.

    `sample` runs the requests where others use the engines too; None: this call has them to itself.
    """
    evaluation = job.config.eval
    if job.eval_prompts is None:
        return {}
    sampling = SamplingParams(
        temperature=evaluation.temperature, top_p=evaluation.top_p, max_tokens=job.config.rollout.max_new_tokens
    )
    draw = -1 - job.step  # never the number of a training step: evaluation samples have seeds of their own
    requests = group_requests(job, job.eval_prompts, evaluation.n_samples_per_prompt, sampling, draw)
    start = time.perf_counter()
    with job.clock.aside():
        if sample is not None:
            groups = sample(requests)
        else:
            with engines_awake(job):
                groups = generate(job, requests)
        groups = grade(job, groups)
        job.cluster.engines.lap()  # its scoring seconds belong to no step either
    seconds = time.perf_counter() - start
    return evaluation_metrics(groups, evaluation.n_samples_per_prompt) | {"eval_seconds": seconds}


def evaluation_metrics(groups: Sequence[RolloutGroup], n: int) -> dict[str, float]:
    """Scores of evaluation groups.

        eval_{datasource}_pass1      mean over prompts of the mean score of its samples
        eval_{datasource}_pass{n}    mean over prompts of the best score of its samples
        eval_response_length_mean, eval_truncated_rate, eval_num_samples, eval_ungraded_rate

    Ungraded samples are counted and left out of the scores.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    scores: dict[str, list[list[float]]] = defaultdict(list)
    for group in groups:
        graded = [r.outcome.score for r in group.rollouts if r.outcome.status is not Status.UNGRADED]
        if graded:
            scores[group.rollouts[0].prompt.datasource].append(graded)
    metrics: dict[str, float] = {}
    for datasource, prompts in sorted(scores.items()):
        metrics[pass_name(datasource, 1)] = float(np.mean([np.mean(own) for own in prompts]))
        if n > 1:
            metrics[pass_name(datasource, n)] = float(np.mean([np.max(own) for own in prompts]))
    return metrics | {
        "eval_response_length_mean": float(np.mean([rollout.num_actions for rollout in rollouts])),
        "eval_truncated_rate": float(np.mean([rollout.truncated for rollout in rollouts])),
        "eval_num_samples": float(len(rollouts)),
        "eval_ungraded_rate": float(np.mean([r.outcome.status is Status.UNGRADED for r in rollouts])),
    }
