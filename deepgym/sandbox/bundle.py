"""The runner as one zip archive that any Python 3.11 runs: `python3 runner.zip job|socket|zygote`."""

import io
import zipfile
from functools import cache
from pathlib import Path

_MAIN = """import sys
if sys.argv[1:] == ["zygote"]:
    from runner.zygote import main
else:
    from runner.main import main
main()
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes from the same sources


@cache
def runner_zip() -> bytes:
    """The archive's bytes."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for path in sorted((Path(__file__).parent / "runner").glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"runner/{path.name}", _EPOCH), path.read_bytes())
    return memory.getvalue()
