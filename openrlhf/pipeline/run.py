"""From a resolved configuration to a finished run: check, launch, train, export.

Everything that can be wrong with the inputs is found here before any process starts.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from openrlhf.cluster.launch import launch
from openrlhf.config.optimiser import has_critic
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.yaml_file import to_yaml
from openrlhf.data.ledger import PromptLedger
from openrlhf.data.loader import PromptLoader
from openrlhf.pipeline import ppo_async, ppo_sync
from openrlhf.pipeline.check import check_inputs
from openrlhf.pipeline.checkpoint import begin
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.length import run_length
from openrlhf.pipeline.spec import cluster_spec
from openrlhf.pipeline.stages import export
from openrlhf.pipeline.verdicts import VerdictWatch
from openrlhf.pipeline.weights import push
from openrlhf.pipeline.work_buffer import Waiting
from openrlhf.rl.kl import make_kl_controller
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.track.errors import TrackError
from openrlhf.track.tracker import RunTracker

logger = logging.getLogger(__name__)


def run(config: PPOConfig, derived: frozenset[str] = frozenset()) -> None:
    """Train as configured; the run folder is `ckpt.output_dir`.

    Args:
        derived: flags of the config that follow from others, as `resolve` found them.

    Raises:
        ConfigError: inputs are wrong, one line each; nothing has been started. TrackError: neither has anything.
        ClusterError, EngineDead, ModelError, RewardError, FloatingPointError, UngradedAbort: the run broke; its
            processes are gone.
    """
    inputs = check_inputs(config)
    length = run_length(len(inputs.prompts), config.rollout, config.train, _frozen_steps(config))
    if length.policy_steps == 0:
        logger.warning(
            "--critic.freezing_steps %d: the run has %d steps, so only the critic is trained",
            config.critic.freezing_steps,
            length.steps,
        )
    output = _run_folder(config.ckpt.output_dir)
    loader = PromptLoader(inputs.prompts, config.rollout.batch_size, config.train.seed, config.train.num_episodes)
    with (
        RunTracker(output, config.logger, config, length.steps) as tracker,
        launch(cluster_spec(config, length)) as cluster,
    ):
        (output / "config.yaml").write_text(to_yaml(config, derived))
        job = Job(
            config=config,
            derived=derived,
            cluster=cluster,
            loader=loader,
            ledger=PromptLedger(len(inputs.prompts)),
            kl=make_kl_controller(config.algo.kl),
            tracker=tracker,
            length=length,
            eval_prompts=inputs.eval_prompts,
            normaliser=RunningNormaliser() if config.reward.normalize_enable else None,
            cut_prompts=inputs.cut,
            verdicts=VerdictWatch(config.reward.abort_after),
        )
        waiting = begin(job)
        if waiting is not None:
            push(job)
        try:
            _train(job, waiting or (), output)
        finally:
            tracker.say(f"{job.step} steps: {job.ledger.summary()}")


def _train(job: Job, waiting: Sequence[Waiting], folder: Path) -> None:
    """Train, and export to `folder`; until that is done, the last step may exist nowhere else."""
    checkpoints = ppo_async.train(job, waiting) if job.config.train.async_enable else ppo_sync.train(job)
    if job.version == 0 and job.length.policy_steps:
        logger.warning(
            "no sample was trained on (%s): the exported model is the one to start with", job.ledger.summary()
        )
    with checkpoints.guard():
        _export(job, folder)


def _export(job: Job, folder: Path) -> None:
    try:
        export(job, folder)
    except OSError as error:
        raise TrackError(
            f"run folder {folder}: the trained model cannot be written: {error}; make room, and --ckpt.load_enable "
            "goes on from the newest checkpoint, where there is one"
        ) from error
    averaged = job.config.train.enable_ema
    written = (
        "the moving average of the weights, of which no evaluation was made" if averaged else "the trained weights"
    )
    job.tracker.say(f"exported to {folder}: {written}")


def _frozen_steps(config: PPOConfig) -> int:
    return config.critic.freezing_steps if has_critic(config) else 0


def _run_folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrackError(f"run folder {path}: {error.strerror}; choose another --ckpt.output_dir") from error
    return folder
