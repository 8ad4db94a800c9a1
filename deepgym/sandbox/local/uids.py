"""A user id for each slot that nobody else on the machine uses, so that limits per user are limits per slot."""

import fcntl
import os
import tempfile
from pathlib import Path

_FIRST, _COUNT = 700_000, 1024


class UidLease:
    """One user id, held by this process until `release` or its end.

    The lease is a locked file, so that two services on one machine never share an id.

    Raises:
        OSError: all ids are taken.
    """

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir()) / f"deepgym-uids-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid() or folder.is_symlink():
            raise PermissionError(f"{folder} belongs to somebody else; remove it")
        first = first_uid()
        for uid in range(first, first + _COUNT):
            fd = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            self.uid = uid
            self._fd = fd
            return
        raise OSError(f"all {_COUNT} user ids from {first} on are in use by running sandboxes")

    def release(self) -> None:
        """Give the id back. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def first_uid() -> int:
    """Where the ids start: in a container with few mapped ids, at the end of them."""
    end = 0
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, _, count = map(int, line.split())
        end = max(end, inside + count)
    return _FIRST if end >= _FIRST + _COUNT else max(1000, end - 2 * _COUNT)
