"""The synchronous loop: generate with the newest weights, train on what was generated, push the weights.

prompts -> rollout + reward -> filter -> experience -> shape -> advantages -> train -> sync weights -> (again)

python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path MODEL --reward.remote_url reward.py ...
"""

from openrlhf.pipeline import stages
from openrlhf.pipeline.checkpoint import saving
from openrlhf.pipeline.evaluate import evaluate
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.report import StepReport, write_down
from openrlhf.pipeline.sleep import models_to_bed


def train(job: Job) -> None:
    """Run the job to its end: one pass of the body is one step."""
    models_to_bed(job)
    if job.config.eval.at_start and job.step == 0:
        job.tracker.log(job.step, evaluate(job))
    with saving(job) as checkpoints:
        while job.step < job.length.steps and (prompts := stages.draw(job)):
            report = StepReport()
            groups = stages.roll_out(job, prompts, report)
            kept = stages.keep(job, groups, report)
            experience = stages.make_experience(job, kept)
            with checkpoints.updating():
                stages.learn(job, experience, report)
                stages.settle(job, kept, report)
                write_down(job, kept, experience, report)
            evaluation = evaluate(job) if is_evaluation_due(job) else {}
            if evaluation:
                job.tracker.log(job.step, evaluation)
            checkpoints.after_step(evaluation)


def is_evaluation_due(job: Job) -> bool:
    """After every eval.steps-th step, and after the last one where eval.at_start asks for both ends."""
    every, last = job.config.eval.steps, job.step == job.length.steps or job.loader.finished
    return (every > 0 and job.step % every == 0) or (last and job.config.eval.at_start)
