"""What can go wrong between the generator and an engine."""


class EngineDead(RuntimeError):
    """An engine cannot be trusted with another request: its process died, or a weight sync broke off half way.

    The message names the engine and the cause. The engine refuses every further request; start a fresh one and
    sync it before use.
    """


class GenerationError(RuntimeError):
    """An engine answered with something that no sample can be made of, such as tokens without logprobs."""
