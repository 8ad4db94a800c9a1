"""What can be wrong with a model folder."""


class ModelError(ValueError):
    """One line: which model, what is wrong with it, and the way out."""
