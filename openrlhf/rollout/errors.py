"""What can go wrong between the generator and an engine, or an agent."""


class EngineDead(RuntimeError):
    """An engine cannot be trusted with another request: its process died, or a weight sync broke off half way.

    The message names the engine and the cause. The engine refuses every further request; start a fresh one and
    sync it before use.
    """


class GenerationError(RuntimeError):
    """An engine answered with something that no sample can be made of, such as tokens without logprobs."""


class AgentError(ValueError):
    """An agent that cannot be used, which ends the run. One line; names its file or its class."""


class AgentReturnError(ValueError):
    """An agent returned something of a wrong form. Its sample has no verdict; the message names key and value."""


class AgentTimeout(RuntimeError):
    """A call of an agent took longer than its time. Its sample has no verdict."""
