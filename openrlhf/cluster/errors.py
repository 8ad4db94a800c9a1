"""What can go wrong between processes. Each error names the peer.

ClusterError
  PeerTimeout   a peer did not answer in time
  PeerDied      a peer's process ended
  EngineLost    an engine died more often than it is restarted
"""


class ClusterError(RuntimeError):
    """A failure of a process or of the wire between two, never of the work itself."""


class PeerTimeout(ClusterError):
    """`peer` did not finish `work` within `seconds`."""

    def __init__(self, peer: str, work: str, seconds: float) -> None:
        super().__init__(peer, work, seconds)

    def __str__(self) -> str:
        peer, work, seconds = self.args
        return f"{peer} did not finish '{work}' within {seconds:.0f} s; if it is only slow, raise --cluster.*_timeout"


class PeerDied(ClusterError):
    """`peer` ended while it was doing `work`."""

    def __init__(self, peer: str, work: str, reason: str) -> None:
        super().__init__(peer, work, reason)

    def __str__(self) -> str:
        peer, work, reason = self.args
        return f"{peer} died during '{work}': {reason}"


class EngineLost(ClusterError):
    """`engine` died, and has been restarted `restarts` times already, which is all that may be."""

    def __init__(self, engine: str, reason: str, restarts: int) -> None:
        super().__init__(engine, reason, restarts)

    def __str__(self) -> str:
        engine, reason, restarts = self.args
        return f"{engine} is lost, after {restarts} restarts (--vllm.max_restarts): {reason}"
