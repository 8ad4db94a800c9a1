"""The synchronous loop: generate with the newest weights, train on what was generated, push the weights.

prompts -> rollout + reward -> filter -> experience -> shape -> advantages -> train -> sync weights -> (again)

python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path MODEL --reward.remote_url reward.py ...
"""

from openrlhf.pipeline import stages
from openrlhf.pipeline.checkpoint import Checkpoints, saving
from openrlhf.pipeline.evaluate import Evaluations
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.report import StepReport
from openrlhf.pipeline.sleep import models_to_bed


def train(job: Job) -> Checkpoints:
    """Run the job to its end: one pass of the body is one step. The checkpoints guard what the run does after it."""
    models_to_bed(job)
    evaluations = Evaluations(job)
    with saving(job) as checkpoints:
        checkpoints.after_step(evaluations.at_start())
        while job.step < job.length.steps and (prompts := stages.draw(job)):
            report = StepReport()
            groups = stages.roll_out(job, prompts, report)
            kept = stages.keep(job, groups, report)
            experience = stages.make_experience(job, kept, report)
            with checkpoints.updating():
                stages.learn(job, experience, report)
                stages.settle(job, kept, experience, report)
                checkpoints.step_is_done()
                stages.publish(job, kept, experience, report)
            checkpoints.after_step(evaluations.after_step())
        checkpoints.after_step(evaluations.at_end())
    return checkpoints
