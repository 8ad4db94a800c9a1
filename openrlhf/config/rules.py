"""Rules between flags that do not depend on the device: batches, lengths, algorithm, evaluation, logging."""

from math import ceil

from openrlhf.config.draft import Draft
from openrlhf.config.template import choose_template

_GROUPED = ("rloo", "reinforce_baseline", "group_norm", "dr_grpo")


def resolve_lengths(draft: Draft) -> None:
    """Token budgets and the prompt template."""
    data, rollout, train = draft.config.data, draft.config.rollout, draft.config.train
    if rollout.max_new_tokens is not None and rollout.max_new_tokens >= data.max_len:
        draft.problem(
            f"--rollout.max_new_tokens {rollout.max_new_tokens}: must be below --data.max_len {data.max_len}, which "
            "counts the prompt too"
        )
    if train.dynamic_batch_enable and rollout.max_tokens_per_gpu is None:
        draft.set("rollout.max_tokens_per_gpu", train.max_tokens_per_gpu)
    if train.dynamic_batch_enable and data.max_len > train.max_tokens_per_gpu:
        draft.warn(
            f"--train.max_tokens_per_gpu {train.max_tokens_per_gpu} is below --data.max_len {data.max_len}: a longer "
            "sequence gets a micro-batch of its own, over the budget"
        )
    if train.dynamic_batch_enable and not draft.config.ds.packing_samples:
        draft.warn("--ds.no-packing_samples: --train.dynamic_batch_enable counts packed tokens; packing stays on")
        draft.set("ds.packing_samples", True)
    template = choose_template(data.input_template, data.apply_chat_template)
    draft.warnings += template.warnings
    draft.problems += template.problems
    draft.set("data.input_template", template.used)


def resolve_batches(draft: Draft) -> None:
    """Sizes that must fit into each other, and into the data-parallel ranks."""
    rollout, train, actor = draft.config.rollout, draft.config.train, draft.config.actor
    samples = rollout.batch_size * rollout.n_samples_per_prompt
    shown = f"--rollout.batch_size {rollout.batch_size} x --rollout.n_samples_per_prompt {rollout.n_samples_per_prompt}"
    ranks = actor.num_nodes * (actor.num_gpus_per_node or 1)
    if train.batch_size > samples:
        draft.problem(
            f"--train.batch_size {train.batch_size}: a rollout has only {samples} samples ({shown}); use at most that"
        )
    elif samples % train.batch_size:
        draft.warn(
            f"--train.batch_size {train.batch_size} does not divide a rollout's {samples} samples ({shown}): its last "
            f"optimiser step has {samples % train.batch_size}"
        )
    if train.batch_size < ranks:
        draft.problem(
            f"--train.batch_size {train.batch_size}: fewer samples than the actor's {ranks} processes; use at least "
            f"{ranks}, or lower --actor.num_gpus_per_node"
        )
    if not train.dynamic_batch_enable:
        _micro_batches(draft, samples, ranks)
    generate = rollout.vllm_generate_batch_size
    if generate is not None and generate > rollout.batch_size and not train.async_enable:
        draft.problem(
            f"--rollout.vllm_generate_batch_size {generate}: more than --rollout.batch_size {rollout.batch_size} is "
            "oversampling, which needs --train.async_enable"
        )
    elif generate is not None and generate < rollout.batch_size:
        draft.problem(
            f"--rollout.vllm_generate_batch_size {generate}: below --rollout.batch_size {rollout.batch_size}; "
            "leave it out"
        )
    elif generate is None:
        draft.set("rollout.vllm_generate_batch_size", rollout.batch_size)


def resolve_pipeline(draft: Draft) -> None:
    """What does not go together with asynchronous training, or with a run that is to be repeated bit for bit."""
    config = draft.config
    if config.train.full_determinism_enable and config.vllm.enable_prefix_caching:
        draft.warn(
            "--vllm.enable_prefix_caching is switched off: with --train.full_determinism_enable an engine that is "
            "replaced, or a resumed run, would begin with an empty cache and sample other tokens"
        )
        draft.set("vllm.enable_prefix_caching", False)
    if not config.train.async_enable:
        if config.train.partial_rollout_enable:
            draft.problem(
                "--train.partial_rollout_enable needs --train.async_enable: else nothing runs during an update"
            )
        return
    if config.train.partial_rollout_enable and config.vllm.enable_prefix_caching:
        draft.problem(
            "--vllm.enable_prefix_caching with --train.partial_rollout_enable: prompts would be continued from keys of "
            "older weights; leave one of them out"
        )
    if config.train.full_determinism_enable:
        draft.problem(
            "--train.full_determinism_enable with --train.async_enable: what is trained when then depends on timing; "
            "choose one of them"
        )
    if config.train.colocate_all and config.device == "cuda":
        draft.problem(
            "--train.colocate_all with --train.async_enable: engines and trainers are busy at the same time, so they "
            "need GPUs of their own; use --train.colocate_actor_ref"
        )
    if config.vllm.enable_sleep:
        draft.warn("--vllm.enable_sleep is switched off: with --train.async_enable the engines never rest")
        draft.set("vllm.enable_sleep", False)


def _micro_batches(draft: Draft, samples: int, ranks: int) -> None:
    rollout, train = draft.config.rollout, draft.config.train
    if samples // rollout.micro_batch_size < ranks and ranks > 1:
        draft.warn(
            f"--rollout.micro_batch_size {rollout.micro_batch_size}: a rollout's {samples} samples give fewer "
            f"micro-batches than the actor's {ranks} processes, so some wait; better at most {max(samples // ranks, 1)}"
        )
    share = ceil(train.batch_size / ranks)
    if train.micro_batch_size > share:
        draft.warn(
            f"--train.micro_batch_size {train.micro_batch_size}: a process has only {share} samples per optimiser step"
        )


def resolve_algorithm(draft: Draft) -> None:
    """Estimator, KL and clip."""
    actor, advantage = draft.config.actor, draft.config.algo.advantage
    n = draft.config.rollout.n_samples_per_prompt
    if advantage.estimator in _GROUPED:
        if n < 2:
            draft.problem(
                f"--algo.advantage.estimator {advantage.estimator}: compares the samples of a prompt; give "
                f"--rollout.n_samples_per_prompt 2 or more, not {n}"
            )
        if advantage.gamma != 1:
            draft.warn(
                f"--algo.advantage.gamma {advantage.gamma} has no effect with {advantage.estimator}, which gives every "
                "token of a response the same advantage"
            )
            draft.set("algo.advantage.gamma", 1.0)
    _loss(draft)
    _nucleus(draft)
    if actor.eps_clip_low_high is None:
        draft.set("actor.eps_clip_low_high", (actor.eps_clip, actor.eps_clip))
    _kl(draft)


def _loss(draft: Draft) -> None:
    """gspo has one ratio per sequence, so its losses are averaged per sequence."""
    actor = draft.config.actor
    if actor.policy_loss_type != "gspo" or actor.loss_aggregation == "sequence":
        return
    if "actor.loss_aggregation" in draft.given:
        draft.problem(
            f"--actor.loss_aggregation {actor.loss_aggregation}: --actor.policy_loss_type gspo has one ratio per "
            "sequence and takes sequence; leave it out"
        )
    draft.set("actor.loss_aggregation", "sequence")


def _nucleus(draft: Draft) -> None:
    """With top_p below 1 the engine's logprobs are those of the nucleus, the trainer's those of all tokens."""
    top_p, advantage = draft.config.rollout.top_p, draft.config.algo.advantage
    if top_p >= 1:
        return
    line = (
        f"--rollout.top_p {top_p:g}: the engine divides by the nucleus's mass, which the trainer does not know, so "
        "train/vllm_kl is above 0 for equal weights"
    )
    if not advantage.is_correction_enable:
        draft.warn(line)
    elif draft.config.actor.policy_loss_type == "gspo" or advantage.is_correction_type == "seq-tis":
        mode = "gspo" if draft.config.actor.policy_loss_type == "gspo" else advantage.is_correction_type
        draft.problem(
            f"{line}, and --algo.advantage.is_correction_enable with {mode} would take that for a difference of the "
            "policies, added up over a response; use --rollout.top_p 1, or leave the correction out"
        )
    else:
        draft.warn(f"{line}, and --algo.advantage.is_correction_enable gives sampled tokens weights below 1 for it")


def _kl(draft: Draft) -> None:
    kl = draft.config.algo.kl
    if kl.init_coef == 0:
        if kl.target is not None:
            draft.problem(
                f"--algo.kl.target {kl.target}: a weight that starts at --algo.kl.init_coef 0 stays 0; start above 0"
            )
        return
    if kl.use_loss and kl.estimator == "k1":
        draft.warn(
            "--algo.kl.estimator k1 with --algo.kl.use_loss: its gradient is 0 on average; k2 or k3 suits a loss term"
        )
    if not kl.use_loss and kl.estimator != "k1":
        draft.warn(f"--algo.kl.estimator {kl.estimator} without --algo.kl.use_loss: k1 suits the penalty on the reward")


def resolve_logging(draft: Draft, wandb_key: str | None) -> None:
    """Evaluation and loggers; the W&B key may come from the environment."""
    evaluation, wandb = draft.config.eval, draft.config.logger.wandb
    if evaluation.dataset is not None and evaluation.steps == -1 and not evaluation.at_start:
        draft.warn(
            f"--eval.dataset {evaluation.dataset} has no effect: give --eval.steps (every so many rollouts) or "
            "--eval.at_start"
        )
    wanted = any(path.startswith("logger.wandb.") for path in draft.given)
    if wandb.key is None and wanted and wandb_key:
        draft.set("logger.wandb.key", wandb_key)
    if draft.config.logger.wandb.key is not None and "wandb" not in draft.machine.packages:
        draft.problem("--logger.wandb.key: the package wandb is not installed; run pip install 'openrlhf[wandb]'")
    if draft.config.logger.tensorboard_dir is not None and "tensorboard" not in draft.machine.packages:
        draft.problem("--logger.tensorboard_dir: the package tensorboard is not installed; run pip install tensorboard")
