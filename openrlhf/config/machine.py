"""What this machine offers. torch is imported only when somebody asks."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

_RAY_ADDRESS_FILE = Path(gettempdir()) / "ray/ray_current_cluster"  # written by `ray start`
_OPTIONAL_PACKAGES = ("flash_attn", "tensorboard", "wandb")


@dataclass(frozen=True, slots=True)
class Machine:
    """What resolve() asks about.

    GPUs that torch sees, optional packages that can be imported, whether a Ray node runs here already, and whether
    the CPU multiplies bf16 matrices itself: without such instructions bf16 is several times slower than fp32.
    """

    num_gpus: int = 0
    packages: frozenset[str] = frozenset()
    runs_ray: bool = False
    cpu_has_bf16: bool = True


def detect_machine(count_gpus: bool = True) -> Machine:
    """Look at the machine this process runs on; without torch it has no GPU, and without `count_gpus` none is seen."""
    packages = frozenset(name for name in _OPTIONAL_PACKAGES if find_spec(name) is not None)
    runs_ray = _RAY_ADDRESS_FILE.exists()
    if not count_gpus or find_spec("torch") is None:
        return Machine(0, packages, runs_ray, _cpu_has_bf16())
    import torch

    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return Machine(num_gpus, packages, runs_ray, _cpu_has_bf16())


def _cpu_has_bf16() -> bool:
    """Whether Linux lists AVX512-BF16, AMX or Arm's bf16 among the CPU's features; elsewhere True."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return True
    words = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return not words.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})
