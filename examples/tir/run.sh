#!/usr/bin/env bash
# Mathematics with a Python tool: SmolLM2-135M writes programs, a sandbox runs them, and it learns to write better ones.
#
#   PATH=$PWD/.venv/bin:$PATH examples/tir/run.sh
#   SEED=1 STEPS=4 RUN=runs/another examples/tir/run.sh      other settings
set -euo pipefail
cd "$(dirname "$0")/../.."

MODEL=${MODEL:-.models/SmolLM2-135M-Instruct}
DATA=${DATA:-runs/data/tir}
RUN=${RUN:-runs/tir}
SEED=${SEED:-42}
LR=${LR:-3e-5}
STEPS=${STEPS:-14}

python3 examples/quickstart/prepare_model.py "$MODEL"
python3 examples/tir/make_data.py "$DATA"
rm -rf "$RUN/tensorboard"

python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.max_len 232 \
   --rollout.max_new_tokens 72 \
   --rollout.temperature 1.0 \
   --env.code.rounds 1 \
   --env.code.run_timeout 5 \
   --env.code.result_tokens 48 \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 4 \
   --rollout.n_samples_per_prompt 8 \
   --train.batch_size 32 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 2048 \
   --train.max_steps "$STEPS" \
   --train.seed "$SEED" \
   --actor.adam.lr "$LR" \
   --actor.lr_scheduler constant_with_warmup \
   --actor.lr_warmup_ratio 0.2 \
   --vllm.enforce_eager \
   --vllm.enable_prefix_caching \
   \
   --logger.num_rollouts_stored 64 \
   --logger.tensorboard_dir "$RUN/tensorboard" \
   --ckpt.output_dir "$RUN" \
   --ckpt.overwrite "$@"

python3 examples/tir/report.py "$RUN"
