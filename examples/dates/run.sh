#!/usr/bin/env bash
# A harder second example: dates in words to ISO dates. Same steps as the quickstart.
#
#   PATH=$PWD/.venv/bin:$PATH examples/dates/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

MODEL=${MODEL:-.models/SmolLM2-135M-Instruct}
DATA=${DATA:-runs/data/dates}
RUN=${RUN:-runs/dates}
SEED=${SEED:-42}
LR=${LR:-1e-5}
STEPS=${STEPS:-20}
HERE=examples/dates
SHARED=examples/quickstart

score() {
    python3 $SHARED/score.py --model "$1" --data "$DATA/test.jsonl" --reward_func $HERE/reward_func.py \
        --max_new_tokens 16 --output "$RUN/$2"
}

echo "== 1/4 model and data"
python3 $SHARED/prepare_model.py "$MODEL"
python3 $HERE/make_data.py "$DATA"

echo "== 2/4 held-out score before training (plain transformers)"
rm -rf "$RUN/tensorboard"  # events of an earlier run would be drawn into the same curves
score "$MODEL" score_before.json

echo "== 3/4 training"
python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --reward.remote_url $HERE/reward_func.py \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.max_len 128 \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 8 \
   --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens 16 \
   --rollout.temperature 1.0 \
   \
   --train.batch_size 64 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 1024 \
   --train.max_steps "$STEPS" \
   --train.seed "$SEED" \
   --actor.adam.lr "$LR" \
   --actor.lr_scheduler constant_with_warmup \
   --actor.lr_warmup_ratio 0.15 \
   --vllm.enforce_eager \
   \
   --eval.dataset "$DATA/test.jsonl" \
   --eval.steps 5 \
   --eval.at_start \
   --eval.temperature 1.0 \
   --eval.n_samples_per_prompt 1 \
   \
   --logger.tensorboard_dir "$RUN/tensorboard" \
   --ckpt.output_dir "$RUN" \
   --ckpt.overwrite "$@"

echo "== 4/4 held-out score after training (the exported model, plain transformers)"
score "$RUN" score_after.json
python3 $SHARED/report.py "$RUN"
