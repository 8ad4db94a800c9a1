#!/usr/bin/env bash
# `make quickstart`: score a small model on held-out prompts, train it with RL, score it again.
#
#   SEED=1 LR=0 STEPS=10 RUN=runs/another make quickstart     other settings
#   EXAMPLE=examples/dates ...                                another example: a folder with make_data.py and reward_func.py
set -euo pipefail
cd "$(dirname "$0")/../.."

EXAMPLE=${EXAMPLE:-examples/quickstart}
NAME=$(basename "$EXAMPLE")
MODEL=${MODEL:-.models/SmolLM2-135M-Instruct}
DATA=${DATA:-runs/data/$NAME}
RUN=${RUN:-runs/$NAME}
SEED=${SEED:-0}
LR=${LR:-2e-5}
STEPS=${STEPS:-10}
MAX_NEW_TOKENS=${MAX_NEW_TOKENS:-24}
HERE=examples/quickstart
# Prompts are chat messages, unless the example says CHAT=no.
[ "${CHAT:-yes}" = no ] || set -- --data.apply_chat_template "$@"

score() {
    python3 $HERE/score.py --model "$1" --data "$DATA/test.jsonl" --reward_func "$EXAMPLE/reward_func.py" \
        --max_new_tokens "$MAX_NEW_TOKENS" --samples 2 --output "$RUN/$2"
}

echo "== 1/4 model and data"
python3 $HERE/prepare_model.py "$MODEL"
python3 "$EXAMPLE/make_data.py" "$DATA"

echo "== 2/4 held-out score before training (plain transformers; a few minutes)"
rm -rf "$RUN/tensorboard"  # events of an earlier run would be drawn into the same curves
BEFORE=$DATA/score_of_$(basename "$MODEL")_$MAX_NEW_TOKENS.json  # the same for every run on this data
if [ ! -f "$BEFORE" ]; then
    score "$MODEL" score_before.json
    cp "$RUN/score_before.json" "$BEFORE"
fi
mkdir -p "$RUN" && cp "$BEFORE" "$RUN/score_before.json"

echo "== 3/4 training (starts Ray, vLLM and DeepSpeed and scores the held-out prompts before the first line)"
python3 -m openrlhf.cli.train_ppo_ray \
   --actor.model_name_or_path "$MODEL" \
   --reward.remote_url "$EXAMPLE/reward_func.py" \
   --data.prompt_dataset "$DATA/train.jsonl" \
   --data.input_key prompt \
   --data.label_key label \
   --data.max_len 128 \
   \
   --algo.advantage.estimator reinforce_baseline \
   --algo.kl.init_coef 0 \
   --rollout.batch_size 8 \
   --rollout.n_samples_per_prompt 8 \
   --rollout.max_new_tokens "$MAX_NEW_TOKENS" \
   --rollout.temperature 1.0 \
   \
   --train.batch_size 64 \
   --train.dynamic_batch_enable \
   --train.max_tokens_per_gpu 1024 \
   --train.max_steps "$STEPS" \
   --train.seed "$SEED" \
   --actor.adam.lr "$LR" \
   --actor.lr_scheduler constant_with_warmup \
   --actor.lr_warmup_ratio 0.2 \
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
python3 $HERE/report.py "$RUN"
