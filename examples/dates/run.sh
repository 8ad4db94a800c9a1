#!/usr/bin/env bash
# A harder second example: dates in words to ISO dates, by the quickstart's script with other data and settings.
#
#   PATH=$PWD/.venv/bin:$PATH examples/dates/run.sh
set -euo pipefail
export EXAMPLE=examples/dates CHAT=no
export LR=${LR:-1e-5} STEPS=${STEPS:-20} MAX_NEW_TOKENS=${MAX_NEW_TOKENS:-16}
source "$(dirname "$0")/../quickstart/run.sh" "$@"
