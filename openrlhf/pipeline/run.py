"""From a resolved configuration to a finished run: check, launch, train, export.

Everything that can be wrong with the inputs is found here before any process starts.
"""

import logging
from pathlib import Path

from openrlhf.cluster.launch import launch
from openrlhf.cluster.specs import ClusterSpec, EngineSpec, PolicySpec, ReferenceSpec, SyncSpec
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.yaml_file import to_yaml
from openrlhf.data.ledger import PromptLedger
from openrlhf.data.loader import PromptLoader
from openrlhf.data.prompts import PromptSet, evaluation_prompts, training_prompts
from openrlhf.models.errors import ModelError
from openrlhf.models.load import load_config
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.length import RunLength, run_length
from openrlhf.pipeline.ppo_sync import train
from openrlhf.pipeline.stages import export
from openrlhf.reward.make import make_reward
from openrlhf.rl.kl import make_kl_controller
from openrlhf.track.errors import TrackError
from openrlhf.track.tracker import RunTracker

logger = logging.getLogger(__name__)


def run(config: PPOConfig) -> None:
    """Train as configured; the run folder is `ckpt.output_dir`.

    Raises:
        DataError, ModelError, RewardError, TrackError: an input is wrong; nothing has been started.
        ClusterError, EngineDead, RewardError, FloatingPointError, UngradedAbort: the run broke; its processes are gone.
    """
    prompts, eval_prompts = check_inputs(config)
    length = run_length(len(prompts), config.rollout, config.train)
    output = _run_folder(config.ckpt.output_dir)
    loader = PromptLoader(prompts, config.rollout.batch_size, config.train.seed, config.train.num_episodes)
    with (
        RunTracker(output, config.logger, config, length.steps) as tracker,
        launch(cluster_spec(config, length)) as cluster,
    ):
        (output / "config.yaml").write_text(to_yaml(config))
        job = Job(
            config=config,
            cluster=cluster,
            loader=loader,
            ledger=PromptLedger(len(prompts)),
            kl=make_kl_controller(config.algo.kl),
            tracker=tracker,
            length=length,
            eval_prompts=eval_prompts,
        )
        train(job)
        export(job, output)


def _run_folder(path: str) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrackError(f"run folder {path}: {error.strerror}; choose another --ckpt.output_dir") from error
    return folder


def check_inputs(config: PPOConfig) -> tuple[PromptSet, PromptSet | None]:
    """Load the prompts and look at the model folder and the reward source, in seconds."""
    model = config.actor.model_name_or_path
    if model is None:
        raise ModelError("no model to train: name one with --actor.model_name_or_path")
    load_config(model)
    make_reward(config.reward)
    tokenizer = load_tokenizer(model, use_fast=not config.data.disable_fast_tokenizer)
    prompts = training_prompts(config.data, tokenizer, config.train.seed)
    return prompts, evaluation_prompts(config.eval, config.data, tokenizer, config.train.seed)


def cluster_spec(config: PPOConfig, length: RunLength) -> ClusterSpec:
    """What each process of a resolved config needs to know."""
    model, vllm, waits = config.actor.model_name_or_path, config.vllm, config.cluster
    if not (model and vllm.sync_backend and vllm.dtype and vllm.num_engines) or config.device == "auto":
        raise ValueError("cluster_spec takes a resolved config")
    reference = ReferenceSpec(
        ref=config.ref,
        ds=config.ds,
        train=config.train,
        temperature=config.rollout.temperature,
        device=config.device,
        collective_timeout=waits.train_timeout,
    )
    policy = PolicySpec(
        actor=config.actor,
        ds=config.ds,
        train=config.train,
        algo=config.algo,
        temperature=config.rollout.temperature,
        device=config.device,
        total_steps=length.optimiser_steps,
        sync=SyncSpec(vllm.sync_backend, vllm.dtype, vllm.num_engines * vllm.tensor_parallel_size, waits.sync_timeout),
        collective_timeout=waits.train_timeout,
    )
    engine = EngineSpec(
        model_name_or_path=model,
        vllm=vllm,
        data=config.data,
        reward=config.reward,
        device=config.device,
        seed=config.train.seed,
        sync_timeout=waits.sync_timeout,
    )
    return ClusterSpec(policy, reference if config.algo.kl.init_coef > 0 else None, engine, waits)
