"""The whole configuration of `train_ppo_ray`: one field per room, and the few flags of no room."""

from typing import Literal

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.base import Section
from openrlhf.config.data import DataConfig
from openrlhf.config.env import EnvConfig
from openrlhf.config.model import ActorConfig, CriticConfig, RefConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.rollout import EvalConfig, RolloutConfig, VllmConfig
from openrlhf.config.run import CkptConfig, ClusterConfig, LoggerConfig
from openrlhf.config.train import DsConfig, TrainConfig


class PPOConfig(Section):
    """Reinforcement learning of a causal language model."""

    actor: ActorConfig = ActorConfig()
    critic: CriticConfig = CriticConfig()
    ref: RefConfig = RefConfig()
    reward: RewardConfig = RewardConfig()
    rollout: RolloutConfig = RolloutConfig()
    vllm: VllmConfig = VllmConfig()
    eval: EvalConfig = EvalConfig()
    data: DataConfig = DataConfig()
    algo: AlgoConfig = AlgoConfig()
    train: TrainConfig = TrainConfig()
    ds: DsConfig = DsConfig()
    ckpt: CkptConfig = CkptConfig()
    logger: LoggerConfig = LoggerConfig()
    env: EnvConfig = EnvConfig()
    cluster: ClusterConfig = ClusterConfig()
    device: Literal["auto", "cuda", "cpu"] = "auto"
    """Where models run. auto: cuda where this machine has a GPU, else cpu."""
    local_rank: int = -1
    """Accepted for launchers that pass it; Ray places the processes."""
    use_ms: bool = False
    """Load models and datasets from ModelScope."""
