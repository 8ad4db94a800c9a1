#!/usr/bin/env bash
# DAPO on math: dynamic sampling, asymmetric clipping, token-level loss and the overlong buffer; all models and the vLLM
# engines on the same GPUs, as a job of a running Ray:
#
#   ray start --head --num-gpus 4
#   OPENRLHF_PATH=$PWD examples/scripts/train_dapo_ray_hybrid_engine.sh
#
# A job runs in Ray's copy of the working directory; OPENRLHF_PATH anchors relative output paths in the original.
# Flags after the script's name are added to the command.
set -euo pipefail
cd "$(dirname "$0")/../.."

GPUS=${GPUS:-4}
export OPENRLHF_PATH=${OPENRLHF_PATH:-$PWD}

ray job submit --address "${RAY_ADDRESS:-http://127.0.0.1:8265}" \
   --runtime-env-json "{\"working_dir\": \".\", \"excludes\": [\".venv\", \".git\", \".models\", \"runs\", \"ckpt\"],
      \"env_vars\": {\"OPENRLHF_PATH\": \"$OPENRLHF_PATH\"}}" \
   -- python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "${MODEL:-Qwen/Qwen3-4B-Thinking-2507}" \
   --reward.remote_url examples/python/math_reward_func.py \
   --data.prompt_dataset "${DATASET:-zhuzilin/dapo-math-17k}" \
   --data.input_key prompt \
   --data.label_key label \
   --data.apply_chat_template \
   --data.max_len 10240 \
   --ds.packing_samples \
   \
   --actor.num_nodes 1 \
   --actor.num_gpus_per_node "$GPUS" \
   --vllm.num_engines "$GPUS" \
   --vllm.tensor_parallel_size 1 \
   --train.colocate_all \
   --vllm.gpu_memory_utilization 0.7 \
   --vllm.enable_sleep \
   --ds.enable_sleep \
   --vllm.sync_backend nccl \
   --vllm.enforce_eager \
   \
   --algo.advantage.estimator group_norm \
   --algo.kl.init_coef 0 \
   --algo.dynamic_filtering_enable \
   --algo.dynamic_filtering_range 0.0 1.0 \
   --actor.eps_clip_low_high 0.2 0.28 \
   --actor.loss_aggregation token \
   --actor.entropy_coef 0.0 \
   --reward.overlong_buffer_len 2048 \
   --reward.overlong_penalty_factor 1.0 \
   --algo.advantage.is_correction_enable \
   --algo.advantage.is_correction_type icepop \
   \
   --rollout.batch_size 128 \
   --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens 8192 \
   --train.batch_size 1024 \
   --train.dynamic_batch_enable \
   \
   --ds.zero_stage 3 \
   --ds.param_dtype bf16 \
   --actor.gradient_checkpointing_enable \
   --actor.adam.lr 1e-6 \
   --ckpt.output_dir "${OUTPUT:-./ckpt/dapo}" "$@"
