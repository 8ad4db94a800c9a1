#!/usr/bin/env bash
# PPO with a critic, and a trained reward model in a process of its own:
#
#   python3 -m openrlhf.cli.serve_rm --reward.model_name_or_path OpenRLHF/Llama-3-8b-rm-700k --port 5000
#   REWARD=http://localhost:5000/get_reward examples/scripts/train_ppo_ray_hybrid_engine.sh
#
# With --reward.model_name_or_path in place of --reward.remote_url the reward model is loaded beside the other models.
# Flags after the script's name are added to the command.
set -euo pipefail
cd "$(dirname "$0")/../.."

GPUS=${GPUS:-8}

python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "${MODEL:-OpenRLHF/Llama-3-8b-sft-mixture}" \
   --critic.model_name_or_path "${CRITIC:-OpenRLHF/Llama-3-8b-rm-700k}" \
   --reward.remote_url "${REWARD:-http://localhost:5000/get_reward}" \
   --data.prompt_dataset "${DATASET:-OpenRLHF/prompt-collection-v0.1}" \
   --data.input_key context_messages \
   --data.apply_chat_template \
   --data.max_len 2048 \
   \
   --actor.num_gpus_per_node "$GPUS" \
   --vllm.num_engines "$GPUS" \
   --train.colocate_all \
   --vllm.gpu_memory_utilization 0.5 \
   --vllm.enable_sleep \
   --ds.enable_sleep \
   \
   --algo.advantage.estimator gae \
   --algo.advantage.lambd 0.95 \
   --algo.kl.init_coef 0.01 \
   --algo.kl.estimator k1 \
   --critic.freezing_steps 4 \
   --reward.normalize_enable \
   \
   --rollout.batch_size 1024 \
   --rollout.n_samples_per_prompt 1 \
   --rollout.max_new_tokens 1024 \
   --train.batch_size 128 \
   --train.dynamic_batch_enable \
   \
   --ds.zero_stage 3 \
   --ds.param_dtype bf16 \
   --actor.gradient_checkpointing_enable \
   --actor.adam.lr 5e-7 \
   --critic.adam.lr 9e-6 \
   --ckpt.output_dir "${OUTPUT:-./ckpt/ppo}" "$@"
