"""What the device decides, and how GPUs are dealt out."""

import pytest


def flags_of(config, *paths):
    read = []
    for path in paths:
        section, name = path.split(".")
        read.append(config.model_dump()[section][name])
    return read


def test_cpu_defaults(resolved):
    resolution = resolved()
    config = resolution.config
    assert config.device == "cpu"
    assert flags_of(config, "ds.attn_implementation", "ds.param_dtype", "vllm.dtype") == ["sdpa", "bf16", "bf16"]
    assert flags_of(config, "vllm.sync_backend", "vllm.num_engines", "vllm.enforce_eager") == ["shm", 1, True]
    assert flags_of(config, "actor.num_gpus_per_node", "ref.num_gpus_per_node") == [1, 1]
    assert config.actor.eps_clip_low_high == (0.2, 0.2)
    assert resolution.warnings == ()


def test_a_cpu_without_bf16_instructions_computes_in_fp32(resolved):
    resolution = resolved(cpu_has_bf16=False)
    assert flags_of(resolution.config, "ds.param_dtype", "vllm.dtype") == ["fp32", "fp32"]
    assert resolution.warnings == ()


def test_bf16_asked_for_on_such_a_cpu_is_kept_and_called_slow(resolved):
    resolution = resolved({"ds.param_dtype": "bf16"}, cpu_has_bf16=False)
    assert flags_of(resolution.config, "ds.param_dtype", "vllm.dtype") == ["bf16", "bf16"]
    assert any(warning.startswith("--ds.param_dtype bf16: this CPU has no bf16") for warning in resolution.warnings)
    assert resolved({"ds.param_dtype": "bf16"}, gpus=8, cpu_has_bf16=False).warnings == resolved(gpus=8).warnings


@pytest.mark.parametrize(
    ("flag", "value", "becomes"),
    [
        ("vllm.sync_backend", "nccl", "shm"),
        ("vllm.sync_backend", "ipc", "shm"),
        ("ds.attn_implementation", "flash_attention_2", "sdpa"),
        ("ds.attn_implementation", "kernels-community/vllm-flash-attn3", "sdpa"),
        ("vllm.enable_sleep", True, False),
        ("ds.enable_sleep", True, False),
        ("ds.adam_offload", True, False),
        ("vllm.enforce_eager", False, True),
    ],
)
def test_gpu_settings_on_cpu_change_with_one_warning(resolved, flag, value, becomes):
    resolution = resolved({flag: value})
    assert flags_of(resolution.config, flag) == [becomes]
    (line,) = resolution.warnings
    assert flag in line


def test_eager_attention_stays_on_cpu(resolved):
    resolution = resolved({"ds.attn_implementation": "eager"})
    assert resolution.config.ds.attn_implementation == "eager"
    assert resolution.warnings == ()


def test_gpu_counts_mean_processes_on_cpu(resolved):
    config = resolved({"actor.num_gpus_per_node": 4, "vllm.num_engines": 2, "train.colocate_all": True}).config
    assert flags_of(config, "actor.num_gpus_per_node", "ref.num_gpus_per_node", "vllm.num_engines") == [4, 4, 2]


def test_fp16_is_refused_on_cpu_but_not_fp32(resolved, problems):
    assert problems({"ds.param_dtype": "fp16"}) == ["--ds.param_dtype fp16: not on CPU; use bf16 or fp32"]
    assert resolved({"ds.param_dtype": "fp32"}).config.vllm.dtype == "fp32"


def test_another_engine_dtype_is_warned_about(resolved):
    (line,) = resolved({"vllm.dtype": "fp32"}).warnings
    assert line.startswith("--vllm.dtype fp32")


def test_cuda_without_a_gpu_is_refused_unless_a_cluster_may_have_one(resolved, problems):
    assert problems({"device": "cuda", "actor.num_gpus_per_node": 1, "vllm.num_engines": 1})[0].startswith(
        "--device cuda"
    )
    counts = {"device": "cuda", "actor.num_gpus_per_node": 1, "vllm.num_engines": 1}
    assert resolved(counts, environ={"RAY_ADDRESS": "auto"}).config.device == "cuda"


def test_auto_takes_the_gpu_and_cpu_can_be_asked_for(resolved):
    assert resolved(gpus=8).config.device == "cuda"
    assert resolved({"device": "cpu"}, gpus=8).config.device == "cpu"


@pytest.mark.parametrize(("packages", "attention"), [((), "sdpa"), (("flash_attn",), "flash_attention_2")])
def test_attention_on_gpu_follows_what_is_installed(resolved, packages, attention):
    assert resolved(gpus=8, packages=packages).config.ds.attn_implementation == attention


@pytest.mark.parametrize(
    ("asked", "colocated", "backend"),
    [(None, True, "ipc"), (None, False, "nccl"), ("nccl", True, "ipc"), ("ipc", True, "ipc"), ("nccl", False, "nccl")],
)
def test_sync_backend_on_gpu_follows_the_placement(resolved, asked, colocated, backend):
    resolution = resolved({"vllm.sync_backend": asked, "train.colocate_all": colocated}, gpus=8)
    assert resolution.config.vllm.sync_backend == backend
    assert len(resolution.warnings) == (asked == "nccl" and colocated)


@pytest.mark.parametrize(("backend", "colocated"), [("shm", True), ("shm", False), ("ipc", False)])
def test_a_backend_that_cannot_work_on_gpu_is_refused(problems, backend, colocated):
    (line,) = problems({"vllm.sync_backend": backend, "train.colocate_all": colocated}, gpus=8)
    assert line.startswith(f"--vllm.sync_backend {backend}")


@pytest.mark.parametrize("flag", ["vllm.enable_sleep", "ds.enable_sleep"])
def test_sleep_needs_colocation(resolved, flag):
    resolution = resolved({flag: True}, gpus=8)
    assert flags_of(resolution.config, flag) == [False]
    assert resolution.warnings == (
        f"--{flag} is switched off: it frees a shared GPU, which needs --train.colocate_all",
    )
    kept = resolved({flag: True, "train.colocate_all": True}, gpus=8)
    assert flags_of(kept.config, flag) == [True]


def test_engines_of_two_nodes(resolved):
    # Per node of 8: 4 for the actor, the reference on top of it, 4 left; two nodes leave 8, so 4 engines of two GPUs.
    changes = {"actor.num_nodes": 2, "actor.num_gpus_per_node": 4, "train.colocate_actor_ref": True}
    config = resolved(changes | {"vllm.tensor_parallel_size": 2}, gpus=8, environ={"RAY_ADDRESS": "auto"}).config
    assert flags_of(config, "vllm.num_engines", "ref.num_nodes") == [4, 2]


def test_offload_needs_zero_1(problems):
    (line,) = problems({"ds.adam_offload": True, "ds.zero_stage": 0}, gpus=8)
    assert "--ds.zero_stage 1" in line


# (changes, GPUs of the machine) -> actor, reference, engines
PLACEMENTS = [
    # Everything on all 8 GPUs; one engine per GPU, or per two.
    ({"train.colocate_all": True}, 8, (8, 8, 8)),
    ({"train.colocate_all": True, "vllm.tensor_parallel_size": 2}, 8, (8, 8, 4)),
    # Engines get half, 4; actor and reference share the other 4.
    ({}, 8, (2, 2, 4)),
    ({"train.colocate_actor_ref": True}, 8, (4, 4, 4)),
    # Engines get 3 of 6, actor and reference 3 // 2 = 1 each; the GPU that is left over goes to an engine.
    ({}, 6, (1, 1, 4)),
    # 8 - 2 engines = 6: three each.
    ({"vllm.num_engines": 2}, 8, (3, 3, 2)),
    # 8 - 4 - 4 = 0 would be left with a reference apart; together there are 4 for the engines.
    ({"actor.num_gpus_per_node": 4, "train.colocate_actor_ref": True}, 8, (4, 4, 4)),
]


# PPO: (changes, GPUs of the machine) -> actor, reference, critic, reward model, engines
PPO = {"algo.advantage.estimator": "gae", "reward.model_name_or_path": "owner/rm", "reward.remote_url": None}
PPO_PLACEMENTS = [
    ({"train.colocate_all": True}, 8, (8, 8, 8, 8, 8)),
    # Engines get half, 8; the four roles share the other 8.
    ({}, 16, (2, 2, 2, 2, 8)),
    # Two pairs share the other 8.
    ({"train.colocate_actor_ref": True, "train.colocate_critic_reward": True}, 16, (4, 4, 4, 4, 8)),
    # 16 - 4 engines - 1 for the reward model = 11: three each for the other three roles.
    ({"vllm.num_engines": 4, "reward.num_gpus_per_node": 1}, 16, (3, 3, 3, 1, 4)),
]


@pytest.mark.parametrize(("changes", "gpus", "expected"), PPO_PLACEMENTS)
def test_gpus_are_dealt_out_to_critic_and_reward_model_too(resolved, changes, gpus, expected):
    config = resolved(PPO | changes, gpus=gpus).config
    roles = (config.actor, config.ref, config.critic, config.reward)
    assert (*(role.num_gpus_per_node for role in roles), config.vllm.num_engines) == expected


def test_critic_and_reward_model_on_the_same_gpus_need_the_same_number(problems):
    changes = {"train.colocate_critic_reward": True, "reward.num_gpus_per_node": 1, "critic.num_gpus_per_node": 2}
    (line,) = problems(PPO | changes, gpus=16)
    assert line.startswith("--train.colocate_critic_reward: the critic has 1 x 2 GPUs and the reward model 1 x 1")


@pytest.mark.parametrize(("changes", "gpus", "expected"), PLACEMENTS)
def test_gpus_are_dealt_out(resolved, changes, gpus, expected):
    config = resolved(changes, gpus=gpus).config
    dealt = flags_of(config, "actor.num_gpus_per_node", "ref.num_gpus_per_node", "vllm.num_engines")
    assert tuple(dealt) == expected


def test_without_a_reference_the_actor_gets_its_share(resolved):
    config = resolved({"algo.kl.init_coef": 0.0}, gpus=8).config
    assert flags_of(config, "actor.num_gpus_per_node", "vllm.num_engines") == [4, 4]
    assert config.ref.model_name_or_path is None


@pytest.mark.parametrize(
    ("changes", "gpus", "says"),
    [
        ({}, 1, "too few"),
        ({"actor.num_gpus_per_node": 4}, 8, "--vllm.num_engines is missing"),  # 8 - 4 - 4 for the reference = 0
        ({"train.colocate_all": True, "vllm.num_engines": 3}, 8, "make them equal"),
        ({"train.colocate_all": True, "ref.num_gpus_per_node": 4}, 8, "the actor's numbers"),
        ({"train.colocate_actor_ref": True, "ref.num_gpus_per_node": 1}, 8, "--train.colocate_actor_ref"),
        ({"actor.num_gpus_per_node": 4, "ref.num_gpus_per_node": 4, "vllm.num_engines": 4}, 8, "the run needs 12 GPUs"),
        ({"train.colocate_all": True, "actor.num_gpus_per_node": 16}, 8, "the run needs 16 GPUs"),
    ],
)
def test_a_placement_that_does_not_fit_is_refused(problems, changes, gpus, says):
    (line,) = problems(changes, gpus=gpus)
    assert says in line


def test_a_cluster_may_have_more_gpus_than_this_machine(resolved):
    counts = {"actor.num_gpus_per_node": 4, "ref.num_gpus_per_node": 4, "vllm.num_engines": 4}
    assert resolved(counts, gpus=8, environ={"RAY_ADDRESS": "auto"}).config.vllm.num_engines == 4
    assert resolved(counts, gpus=8, runs_ray=True).config.vllm.num_engines == 4
