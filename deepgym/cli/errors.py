"""Exit codes, and the one error that the command line adds to deepgym's own."""

EXIT_NOT_PASSED = 1
EXIT_USAGE = 2
EXIT_NO_VERDICT = 3


class UsageError(Exception):
    """The command cannot run as given; the message says what to change."""
