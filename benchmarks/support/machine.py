"""What the benchmarks run on: the device, its number format, the quickstart's model."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openrlhf.config.machine import detect_machine

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / ".models/SmolLM2-135M-Instruct"


@dataclass(frozen=True, slots=True)
class Setting:
    """The device and number format that the command line would choose here."""

    device: Literal["cpu", "cuda"]
    dtype: Literal["bf16", "fp32"]


def choose_setting(dtype: Literal["bf16", "fp32"] | None) -> Setting:
    """`dtype`: None for what suits the machine."""
    machine = detect_machine()
    device: Literal["cpu", "cuda"] = "cuda" if machine.num_gpus else "cpu"
    fast_bf16 = device == "cuda" or machine.cpu_has_bf16
    return Setting(device, dtype or ("bf16" if fast_bf16 else "fp32"))


def prepare_model(path: str) -> None:
    """Make the quickstart's model where `path` is its folder and it is missing."""
    if Path(path) == MODEL:
        subprocess.run([sys.executable, ROOT / "examples/quickstart/prepare_model.py", MODEL], check=True, timeout=600)


def print_header(what: str, path: str, setting: Setting) -> None:
    """Say what runs where, and how busy the machine is already: another load shows in every number."""
    cores = len(os.sched_getaffinity(0))
    print(f"{what}: {Path(path).name}, {setting.dtype} on {setting.device}, {cores} cores of {platform.machine()}")
    print(f"load of the machine before the start: {os.getloadavg()[0]:.1f}", flush=True)
