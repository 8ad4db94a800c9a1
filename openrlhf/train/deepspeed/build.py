"""DeepSpeed's compiled operators: fewer of them, and no endless wait for one.

torch compiles an operator on its first use and guards the build by a file that it deletes afterwards. A process killed
in between leaves the file behind, and every later run on that machine waits for ever, without a word.
"""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deepspeed
from torch.utils.cpp_extension import get_default_build_root

logger = logging.getLogger(__name__)

_SHM_COMM = "deepspeed_shm_comm"
_CPU_ADAM = "cpu_adam"


def skip_shm_comm() -> None:
    """Do without DeepSpeed's shared-memory collectives: they serve inference only, and cost a 30 s compile."""
    deepspeed.ops.__compatible_ops__[_SHM_COMM] = False


@contextmanager
def building() -> Iterator[None]:
    """Compile operators inside this block: one process of the machine at a time, leftovers of killed ones cleared.

    The lock is the kernel's, which drops it when its holder dies.
    """
    root = Path(get_default_build_root())
    root.mkdir(parents=True, exist_ok=True)
    with (root / "openrlhf.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for leftover in root.glob(f"*/{_CPU_ADAM}/lock"):
            logger.warning("removing %s, left behind by a build that was killed", leftover)
            leftover.unlink(missing_ok=True)
        yield
