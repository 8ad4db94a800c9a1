"""What can be wrong with a model folder."""


class ModelError(ValueError):
    """One line: which model, what is wrong with it, and the way out."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
