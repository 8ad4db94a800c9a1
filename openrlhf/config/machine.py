"""What this machine offers. torch is imported only when somebody asks."""

from dataclasses import dataclass
from importlib.util import find_spec

_OPTIONAL_PACKAGES = ("flash_attn", "tensorboard", "wandb")


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs that torch sees, and which optional packages can be imported."""

    num_gpus: int = 0
    packages: frozenset[str] = frozenset()


def detect_machine(count_gpus: bool = True) -> Machine:
    """Look at the machine this process runs on; without torch it has no GPU, and without `count_gpus` none is seen."""
    packages = frozenset(name for name in _OPTIONAL_PACKAGES if find_spec(name) is not None)
    if not count_gpus or find_spec("torch") is None:
        return Machine(0, packages)
    import torch

    return Machine(torch.cuda.device_count() if torch.cuda.is_available() else 0, packages)
