#!/usr/bin/env bash
# Puzzles of reasoning-gym as a source of tasks: the label of each row says what grades it, so there is no reward file.
#
#   PATH=$PWD/.venv/bin:$PATH examples/puzzles/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

MODEL=${MODEL:-.models/SmolLM2-135M-Instruct}
DATA=${DATA:-runs/data/puzzles}
RUN=${RUN:-runs/puzzles}

python3 examples/quickstart/prepare_model.py "$MODEL"
python3 examples/puzzles/make_data.py "$DATA"
python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.apply_chat_template \
   --data.max_len 192 \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --algo.bad_examples.filter_enable \
   --algo.bad_examples.advantage_mask after \
   --rollout.batch_size 8 \
   --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens 24 \
   \
   --train.batch_size 64 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 1024 \
   --train.max_steps "${STEPS:-10}" \
   --actor.adam.lr "${LR:-2e-5}" \
   --actor.lr_scheduler constant_with_warmup \
   --vllm.enforce_eager \
   \
   --eval.dataset "$DATA/test.jsonl" \
   --eval.at_start \
   --eval.temperature 1.0 \
   --eval.n_samples_per_prompt 1 \
   --ckpt.output_dir "$RUN" \
   --ckpt.overwrite "$@"
