"""The error of this room: a reward source that cannot be used, which ends the run."""


class RewardError(ValueError):
    """A reward source is missing, broken, or answered in the wrong form. One line; names the function or address.

    A sample without a verdict is no RewardError: it is an UNGRADED outcome (DESIGN rule 1).
    """
