"""The asynchronous loop: a sampler keeps the engines busy while the newest finished batch is trained on.

prompts -> rollout + reward -> filter -> [buffer] -> experience -> shape -> advantages -> train -> sync -> (again)

python3 -m openrlhf.cli.train_ppo_ray --train.async_enable --train.async_queue_size 1 --train.max_staleness 2 ...
"""

from collections.abc import Sequence

from openrlhf.pipeline import stages
from openrlhf.pipeline.checkpoint import Checkpoints, saving
from openrlhf.pipeline.evaluate import Evaluations
from openrlhf.pipeline.fate import fates
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.report import StepReport
from openrlhf.pipeline.sampler import Sampler
from openrlhf.pipeline.work_buffer import Waiting


def train(job: Job, waiting: Sequence[Waiting] = ()) -> Checkpoints:
    """Run the job to its end; `waiting` are the finished groups of a run that is resumed. As in the other loop, the
    checkpoints guard what the run does after it.

    A sample may be trained on some updates after it was sampled; `async/staleness_*` and the policy version of each of
    its tokens say how many, `--algo.advantage.is_correction_enable` weighs it accordingly.
    """
    lost = job.ledger.recover((group.episode, group.prompt_id) for group in waiting)
    redraw = [(episode, job.loader.prompt(prompt_id)) for episode, prompt_id in lost]
    with Sampler(job, waiting, redraw) as sampler, saving(job, sampler.snapshot) as checkpoints:
        evaluations = Evaluations(job, sampler.evaluate)
        checkpoints.after_step(evaluations.at_start())
        while job.step < job.length.steps and (batch := sampler.take()) is not None:
            report = StepReport(metrics=batch.metrics, groups=batch.groups)
            stages.judge(job, report)
            kept = stages.keep(job, report.groups, report)
            experience = stages.make_experience(job, kept, report)
            with checkpoints.updating():
                stages.learn(job, experience, report)
                sampler.settle(batch.taken, fates(report.groups, kept, experience))
                checkpoints.step_is_done()
                stages.publish(job, kept, experience, report)
            checkpoints.after_step(evaluations.after_step())
        checkpoints.after_step(evaluations.at_end())
    return checkpoints
