"""The failures that a run may end with and that say everything in their one line."""

from torch.distributed import DistNetworkError

from openrlhf.cluster.errors import ClusterError
from openrlhf.data.errors import DataError
from openrlhf.env.errors import EnvError
from openrlhf.models.errors import ModelError
from openrlhf.pipeline.checkpoint_store import CheckpointError
from openrlhf.reward.errors import RewardError
from openrlhf.rl.filtering import UngradedAbort
from openrlhf.rollout.errors import AgentError, EngineDead, GenerationError
from openrlhf.track.errors import TrackError

EXPECTED_FAILURES: tuple[type[BaseException], ...] = (
    ClusterError,
    CheckpointError,
    DataError,
    ModelError,
    RewardError,
    UngradedAbort,
    AgentError,
    EnvError,
    EngineDead,
    GenerationError,
    TrackError,
    FloatingPointError,
    DistNetworkError,  # a port of the process group was taken in the moment between choosing and opening it
)
