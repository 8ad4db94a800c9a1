"""Questions to the disk about names that users typed: an answer for every name, however long or odd."""

from pathlib import Path

_LONGEST_PART, _LONGEST_PATH = 255, 4095  # bytes, of one folder or file name and of the whole, on Linux


def unusable(name: str) -> str | None:
    """Why no file or folder can have this name; None where one can."""
    if "\0" in name:
        return "a path holds no NUL byte"
    encoded = name.encode("utf-8", "surrogatepass")
    if any(len(part) > _LONGEST_PART for part in encoded.split(b"/")):
        return f"a name in a path has at most {_LONGEST_PART} bytes"
    if len(encoded) > _LONGEST_PATH:
        return f"a path has at most {_LONGEST_PATH} bytes"
    return None


def expanded(name: str) -> Path:
    """The path with its `~` replaced by the home folder; as it stands where there is no such user."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def exists(path: Path) -> bool:
    """Whether something lies there that this process may see."""
    try:
        return unusable(str(path)) is None and path.exists()
    except OSError:  # a folder on the way may not be searched
        return False


def is_file(path: Path) -> bool:
    """Whether a file lies there that this process may see."""
    return exists(path) and path.is_file()
