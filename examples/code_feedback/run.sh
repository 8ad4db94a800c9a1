#!/usr/bin/env bash
# Functions to write, run by deepgym's sandbox, with a second try after feedback.
#
#   PATH=$PWD/.venv/bin:$PATH examples/code_feedback/run.sh
#   STEPS=2 RUN=runs/another examples/code_feedback/run.sh      other settings
set -euo pipefail
cd "$(dirname "$0")/../.."

MODEL=${MODEL:-.models/SmolLM2-135M-Instruct}
DATA=${DATA:-runs/data/code_feedback}
RUN=${RUN:-runs/code_feedback}

python3 examples/quickstart/prepare_model.py "$MODEL"
python3 examples/code_feedback/make_data.py "$DATA"

python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --train.agent_func_path examples/code_feedback/agent_func.py \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.max_len 256 \
   --rollout.max_new_tokens 40 \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 8 \
   --rollout.n_samples_per_prompt 8 \
   --train.batch_size 64 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 2048 \
   --train.max_steps "${STEPS:-8}" \
   --train.seed "${SEED:-42}" \
   --actor.adam.lr "${LR:-2e-5}" \
   --actor.lr_scheduler constant_with_warmup \
   --actor.lr_warmup_ratio 0.2 \
   --vllm.enforce_eager \
   \
   --ckpt.output_dir "$RUN" \
   --ckpt.overwrite "$@"
