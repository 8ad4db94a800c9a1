#!/usr/bin/env bash
# RL with a reward function of your own, the shortest useful command. It starts and stops its own Ray.
#
#   MODEL=Qwen/Qwen3-0.6B DATASET=my_prompts.jsonl REWARD=my_reward.py examples/scripts/train_ppo_with_reward_fn.sh
#
# Flags after the script's name are added to the command, e.g. --train.max_steps 2, or --dry_run to see the plan.
set -euo pipefail
cd "$(dirname "$0")/../.."

python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "${MODEL:-Qwen/Qwen3-0.6B}" \
   --reward.remote_url "${REWARD:-examples/python/math_reward_func.py}" \
   --data.prompt_dataset "${DATASET:-zhuzilin/dapo-math-17k}" \
   --data.input_key prompt \
   --data.label_key label \
   --data.apply_chat_template \
   --data.max_len 4096 \
   \
   --algo.advantage.estimator reinforce \
   --algo.kl.init_coef 1e-3 \
   --algo.kl.estimator k1 \
   \
   --rollout.batch_size 64 \
   --rollout.n_samples_per_prompt 4 \
   --rollout.max_new_tokens 2048 \
   --train.batch_size 256 \
   --train.dynamic_batch_enable \
   --train.colocate_actor_ref \
   \
   --ds.zero_stage 2 \
   --ds.param_dtype bf16 \
   --actor.gradient_checkpointing_enable \
   --actor.adam.lr 1e-6 \
   --ckpt.output_dir "${OUTPUT:-./ckpt/reward_fn}" "$@"
