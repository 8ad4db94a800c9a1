#!/usr/bin/env bash
# Geometry problems with figures: REINFORCE++-baseline of a vision-language model, trainer and vLLM engines on the same
# GPUs, as a job of a running Ray:
#
#   ray start --head --num-gpus 4
#   OPENRLHF_PATH=$PWD examples/scripts/train_vlm_math_hybrid_engine.sh
#
# A row of the data has its question in `problem`, with an <image> for each figure, the figures in `images` and the
# answer in `answer`, as those of hiyouga/geometry3k. INPUT_KEY and LABEL_KEY name the columns of other data, whose
# questions may also be messages with {"type": "image"} parts (docs/vision.md). The model must have an entry in
# openrlhf/models/vision/architectures.py.
# examples/vision/run.sh is the same on a CPU. Flags after the script's name are added to the command.
set -euo pipefail
cd "$(dirname "$0")/../.."

GPUS=${GPUS:-4}
export OPENRLHF_PATH=${OPENRLHF_PATH:-$PWD}

ray job submit --address "${RAY_ADDRESS:-http://127.0.0.1:8265}" \
   --runtime-env-json "{\"working_dir\": \".\", \"excludes\": [\".venv\", \".git\", \".models\", \"runs\", \"ckpt\"],
      \"env_vars\": {\"OPENRLHF_PATH\": \"$OPENRLHF_PATH\"}}" \
   -- python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "${MODEL:-HuggingFaceM4/Idefics3-8B-Llama3}" \
   --reward.remote_url examples/python/math_reward_func.py \
   --data.prompt_dataset "${DATASET:-hiyouga/geometry3k}" \
   --data.input_key "${INPUT_KEY:-problem}" \
   --data.label_key "${LABEL_KEY:-answer}" \
   --data.image_key images \
   --data.max_images_per_prompt 1 \
   --data.apply_chat_template \
   --data.max_len 8192 \
   --actor.freeze_visual_encoder \
   \
   --actor.num_nodes 1 \
   --actor.num_gpus_per_node "$GPUS" \
   --vllm.num_engines "$GPUS" \
   --vllm.tensor_parallel_size 1 \
   --train.colocate_all \
   --vllm.gpu_memory_utilization 0.7 \
   --vllm.enable_sleep \
   --ds.enable_sleep \
   --vllm.enforce_eager \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 128 \
   --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens 2048 \
   --train.batch_size 1024 \
   --rollout.micro_batch_size 8 \
   --train.micro_batch_size 2 \
   \
   --ds.zero_stage 3 \
   --ds.param_dtype bf16 \
   --ds.attn_implementation eager \
   --actor.gradient_checkpointing_enable \
   --actor.adam.lr 5e-7 \
   --ckpt.output_dir "${OUTPUT:-./ckpt/vlm-math}" "$@"
