#!/usr/bin/env bash
# Add torchvision to .venv on a CPU machine, for models whose processors need it (Qwen2.5-VL, Qwen3-VL; docs/vision.md).
# `make setup` leaves it out, and takes it out again when it fills .venv anew. GPU builds of vLLM bring their own.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv}
TORCHVISION="torchvision==0.28.0"  # belongs to torch 2.13.0; another one would ask for another torch

torch_version() { "$VENV/bin/python" -c 'import torch; print(torch.__version__)'; }

before=$(torch_version)
"$VENV/bin/pip" install --quiet --no-deps "$TORCHVISION"
site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp tools/torchvision_on_cpu/torchvision_on_cpu.py "$site/"
echo "import torchvision_on_cpu" > "$site/torchvision_on_cpu.pth"  # read by every process of .venv at its start
"$VENV/bin/python" -c 'import torchvision.transforms.v2'
if [ "$(torch_version)" != "$before" ]; then
    echo "setup: torch was $before and is $(torch_version) now; run make setup" >&2
    exit 1
fi
echo "setup: $TORCHVISION beside torch $before"
