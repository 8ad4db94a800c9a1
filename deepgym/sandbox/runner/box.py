"""What one answer has to itself inside the zygote's jail: processes, mounts, files.

Called in process 1 of a new PID, mount and IPC namespace, which still holds the jail's capabilities over its own
user namespace; it gives them up here, before it reads anything that an answer wrote.
"""

import os

from . import kernel
from .setup import Setup

WORK, TMP, SHM, BOX = "/work", "/tmp", "/dev/shm", "/box"
_UNBOUNDED = 1 << 40
_INODE_BYTES = 8192  # one inode for so many bytes of disk: small files cost kernel memory beside their pages


def enter_box(setup: Setup) -> int:
    """Mount the answer's disk and its /proc; return a descriptor of a /proc that shows every process.

    One tmpfs of `disk_bytes` holds the working directory, /tmp and /dev/shm. The answer's own /proc shows processes
    only, and only those it may look into, so neither the supervisor nor the host's settings are in it.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    defences = setup.defences
    _mount_disk(setup.limits.disk_bytes if defences.private_disk else _UNBOUNDED)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", flags)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if defences.hidden_supervisor:
        kernel.mount("proc", "/proc", "proc", flags, "hidepid=invisible,subset=pid")
    if defences.no_capabilities:
        kernel.drop_capabilities()
    return proc


def _mount_disk(size: int) -> None:
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    inodes = max(64, size // _INODE_BYTES)
    kernel.mount("tmpfs", BOX, "tmpfs", flags, f"size={size},nr_inodes={inodes},mode=0755")
    for name, target in (("work", WORK), ("tmp", TMP), ("shm", SHM)):
        folder = f"{BOX}/{name}"
        os.mkdir(folder, 0o755)
        kernel.mount(folder, target, None, kernel.MS_BIND)
    kernel.unmount(BOX)
