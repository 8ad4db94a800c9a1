"""What tracking can refuse."""


class TrackError(Exception):
    """A destination of metrics cannot be opened; the message says what to do."""
