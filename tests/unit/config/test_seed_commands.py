"""Public case j1: every command of the documents goes through the parser, and only planned features are refused."""

from functools import cache
from pathlib import Path

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.machine import Machine
from openrlhf.config.parse import ParsedArgs, parse_ppo
from openrlhf.config.resolve import resolve

# Seed 001's launch script, shell variables filled in.
TIR = """
--ref_num_nodes 1 --ref_num_gpus_per_node 8 --actor_num_nodes 1 --actor_num_gpus_per_node 8 --vllm_num_engines 8
--vllm_tensor_parallel_size 1 --colocate_actor_ref --vllm_gpu_memory_utilization 0.9 --gamma 1.0 --l2 0.01
--async_train --dynamic_filtering --dynamic_filtering_reward_range 0.05 0.8 --eps_clip_low_high 0.22 0.28
--advantage_estimator reinforce_baseline --pretrain ./model --ref_pretrain ./model --agent_func_path agent.py
--save_path save --ckpt_path save --save_hf_ckpt --micro_train_batch_size 4 --train_batch_size 2048
--micro_rollout_batch_size 4 --rollout_batch_size 128 --n_samples_per_prompt 16 --max_epochs 1
--num_episodes 100000000 --prompt_max_len 1024 --max_samples 100000000 --generate_max_len 8192 --zero_stage 3 --bf16
--init_kl_coef 0.0 --lr_warmup_ratio 0.0 --actor_learning_rate 1e-6 --critic_learning_rate 9e-6
--prompt_data prompts.jsonl --input_key query --label_key label --normalize_reward --gradient_checkpointing
--use_global_token_level_loss --use_dual_policy_loss --use_filter_sample --use_dynamic_batch --use_loss_mask
--use_adv_mask_after --grad_accum_dtype fp32 --use_seq_balancing --vllm_sync_backend nccl --vllm_enable_sleep
--deepspeed_enable_sleep --adam_offload --flash_attn --normalize_reward --gradient_checkpointing --packing_samples
--enforce_eager --load_checkpoint --save_steps 50 --use_tensorboard save/tb --remote_rm_url http://localhost:8000
"""
# Seed 002's quick launch.
QUICK = """
--actor.model_name_or_path owner/model --reward.remote_url reward.py --data.prompt_dataset owner/prompts
--data.input_key prompt --data.label_key label --data.apply_chat_template --ds.packing_samples --ref.num_nodes 1
--ref.num_gpus_per_node 4 --actor.num_nodes 1 --actor.num_gpus_per_node 4 --vllm.num_engines 2
--vllm.tensor_parallel_size 2 --train.colocate_all --vllm.gpu_memory_utilization 0.7 --vllm.enable_sleep
--ds.enable_sleep --vllm.sync_backend nccl --vllm.enforce_eager --algo.advantage.estimator reinforce_baseline
--algo.kl.use_loss --algo.kl.estimator k2 --algo.kl.init_coef 1e-5 --actor.entropy_coef 0.0
--algo.advantage.is_correction_enable --algo.advantage.is_correction_type icepop --rollout.batch_size 128
--rollout.n_samples_per_prompt 8 --train.batch_size 1024 --algo.dynamic_filtering_enable
--algo.dynamic_filtering_range 0.0 1.0 --train.dynamic_batch_enable --data.max_len 74240
--rollout.max_new_tokens 64000 --ds.zero_stage 3 --ds.param_dtype bf16 --actor.gradient_checkpointing_enable
--actor.adam.lr 5e-7 --ckpt.output_dir ./exp/model
"""
# The rest of seeds 000 and 002 are fragments; they need the least that any run needs beside them.
REST = "--actor.model_name_or_path owner/model --data.prompt_dataset owner/prompts --rollout.n_samples_per_prompt 8 "
REST += "--algo.advantage.estimator reinforce_baseline "
DEEPGYM = REST + "--remote_rm_url http://localhost:8000/reward/score --algo.dynamic_filtering_enable"
SERVER = REST + "--reward.remote_url http://localhost:5000/get_reward"
AGENT = REST + "--train.agent_func_path agent.py --train.async_enable --train.partial_rollout_enable"
MUON = (
    "--actor.model_name_or_path owner/model --data.prompt_dataset owner/prompts --reward.remote_url reward.py "
    "--actor.optim muon --actor.muon.lr 0.02 --actor.muon.momentum 0.95 --actor.adam.lr 5e-7 --critic.optim adam "
    "--critic.adam.lr 9e-6"
)
WARM_UP = (
    "--actor.model_name_or_path owner/model --data.prompt_dataset owner/prompts --reward.model_name_or_path owner/rm "
    "--reward.normalize_enable --critic.freezing_steps 10 --critic.save_value_network --critic.value_clip 0.2 "
    "--reward.stop_properly_penalty_coef -0.5 --reward.overlong_buffer_len 512 --rollout.max_new_tokens 1024"
)
VLM = """
--actor.model_name_or_path owner/vlm --reward.remote_url reward.py --data.prompt_dataset owner/pictures
--data.input_key prompt --data.label_key label --data.image_key images --data.max_images_per_prompt 1
--actor.freeze_visual_encoder --data.max_len 4096 --rollout.max_new_tokens 2048
--algo.advantage.estimator reinforce_baseline --rollout.n_samples_per_prompt 8 --train.colocate_all
--vllm.gpu_memory_utilization 0.7 --data.apply_chat_template --ds.attn_implementation eager --ds.param_dtype bf16
"""
COMMANDS = {
    "tir": (TIR, set()),
    "quick": (QUICK, set()),
    "deepgym": (DEEPGYM, set()),
    "server": (SERVER, set()),
    "agent": (AGENT, set()),
    "muon": (MUON, set()),
    "warm up": (WARM_UP, set()),
    "vlm": (VLM, set()),
}


@cache
def parsed(command: str) -> ParsedArgs:
    return parse_ppo(command.split())


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("gpus", [0, 16])
def test_only_planned_features_are_refused(name, gpus, workplace: Path):
    command, planned = COMMANDS[name]
    (workplace / "save").mkdir()
    (workplace / "agent.py").write_text("class AgentExecutor: pass")
    (workplace / "save/node_ip.txt").write_text("127.0.0.1\n")  # the seed's script puts it there before the run
    config = parsed(command).config
    problems = []
    try:
        resolve(config, {}, Machine(gpus, frozenset({"tensorboard"})), workplace)
    except ConfigError as error:
        problems = list(error.problems)
    assert [line for line in problems if "comes with later work" not in line] == []
    assert {line.split()[0].removeprefix("--") for line in problems} == planned


def test_the_values_of_the_old_command_arrive():
    config = parsed(TIR).config
    assert (config.data.max_len, config.rollout.max_new_tokens) == (9216, 8192)  # 1024 + 8192
    assert config.ds.attn_implementation == "flash_attention_2"
    assert (config.actor.dual_clip, config.actor.adam.weight_decay) == (3.0, 0.01)
    assert config.actor.eps_clip_low_high == (0.22, 0.28)
    assert config.algo.bad_examples.advantage_mask == "after"
    assert config.logger.tensorboard_dir == "save/tb"
    old = [word for word in TIR.split() if word.startswith("--")]
    repeats = 2  # --normalize_reward and --gradient_checkpointing
    assert len(parsed(TIR).warnings) == len(old) - repeats + repeats  # one line per old name, one per repeat


def test_the_quick_launch_runs_on_cpu(workplace: Path):
    resolution = resolve(parse_ppo(QUICK.split()).config, {}, Machine(), workplace)
    config = resolution.config
    assert (config.device, config.vllm.sync_backend, config.ds.attn_implementation) == ("cpu", "shm", "sdpa")
    assert (config.actor.num_gpus_per_node, config.ref.num_gpus_per_node, config.vllm.num_engines) == (4, 4, 2)
    assert config.reward.remote_url == str(workplace / "reward.py")
