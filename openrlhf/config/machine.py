"""What this machine offers. torch is imported only when somebody asks."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

_RAY_ADDRESS_FILE = Path(gettempdir()) / "ray/ray_current_cluster"  # written by `ray start`
_OPTIONAL_PACKAGES = ("flash_attn", "tensorboard", "wandb")


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs that torch sees, optional packages that can be imported, and whether a Ray node runs here already."""

    num_gpus: int = 0
    packages: frozenset[str] = frozenset()
    runs_ray: bool = False


def detect_machine(count_gpus: bool = True) -> Machine:
    """Look at the machine this process runs on; without torch it has no GPU, and without `count_gpus` none is seen."""
    packages = frozenset(name for name in _OPTIONAL_PACKAGES if find_spec(name) is not None)
    runs_ray = _RAY_ADDRESS_FILE.exists()
    if not count_gpus or find_spec("torch") is None:
        return Machine(0, packages, runs_ray)
    import torch

    return Machine(torch.cuda.device_count() if torch.cuda.is_available() else 0, packages, runs_ray)
