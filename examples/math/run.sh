#!/usr/bin/env bash
# Mathematics in one turn: the last box of a response is compared with the label by math-verify.
#
#   PATH=$PWD/.venv/bin:$PATH examples/math/run.sh
#   STEPS=2 RUN=runs/another examples/math/run.sh      other settings
set -euo pipefail
cd "$(dirname "$0")/../.."

MODEL=${MODEL:-.models/SmolLM2-135M-Instruct}
DATA=${DATA:-runs/data/math}
RUN=${RUN:-runs/math}

python3 examples/quickstart/prepare_model.py "$MODEL"
python3 examples/math/make_data.py "$DATA"

python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --reward.remote_url examples/python/math_reward_func.py \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.apply_chat_template \
   --data.max_len 192 \
   --rollout.max_new_tokens 12 \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 8 \
   --rollout.n_samples_per_prompt 8 \
   --train.batch_size 64 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 1024 \
   --train.max_steps "${STEPS:-10}" \
   --train.seed "${SEED:-42}" \
   --actor.adam.lr "${LR:-2e-5}" \
   --actor.lr_scheduler constant_with_warmup \
   --actor.lr_warmup_ratio 0.2 \
   --vllm.enforce_eager \
   --vllm.enable_prefix_caching \
   \
   --ckpt.output_dir "$RUN" \
   --ckpt.overwrite "$@"
