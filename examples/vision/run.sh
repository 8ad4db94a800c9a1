#!/usr/bin/env bash
# Vision-language RL on a CPU: a tiny random model learns to name colours and to count discs.
#
#   PATH=$PWD/.venv/bin:$PATH examples/vision/run.sh
#   ... --train.agent_func_path examples/python/vlm_multiturn_agent.py --data.max_images_per_prompt 2    it may look again
#   ... --actor.freeze_visual_encoder     the encoder stays random, the language model learns to read it
#   ARCHITECTURE=qwen3_vl ...             or qwen2_5_vl: after tools/setup_vision.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

ARCHITECTURE=${ARCHITECTURE:-idefics3}
MODEL=${MODEL:-.models/tiny-$ARCHITECTURE}
DATA=${DATA:-runs/data/vision}
RUN=${RUN:-runs/vision}

[ -f "$MODEL/config.json" ] || python3 examples/vision/prepare_model.py "$MODEL" "$ARCHITECTURE"
[ -f "$DATA/test.jsonl" ] || python3 examples/vision/make_data.py "$DATA"

python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --reward.remote_url examples/vision/reward_func.py \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.apply_chat_template \
   --data.image_key images \
   --data.max_images_per_prompt 1 \
   --data.max_len 64 \
   \
   --algo.advantage.estimator group_norm \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 16 \
   --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens 2 \
   --train.batch_size 128 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 2048 \
   --train.num_episodes "${EPISODES:-10}" \
   --train.seed "${SEED:-42}" \
   --actor.adam.lr "${LR:-5e-4}" \
   --actor.lr_scheduler constant \
   --ds.param_dtype fp32 \
   --vllm.enforce_eager \
   --vllm.cpu_kv_cache_gb 1 \
   \
   --eval.dataset "$DATA/test.jsonl" \
   --eval.steps 20 \
   --eval.at_start \
   --eval.temperature 1.0 \
   --eval.n_samples_per_prompt 4 \
   --ckpt.output_dir "$RUN" \
   --ckpt.overwrite "$@"

python3 -m openrlhf.cli.report "$RUN"
