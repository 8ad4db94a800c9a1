"""What an actor needs to know to build its part: the sub-configurations it uses, and no more."""

from dataclasses import dataclass, field
from typing import Literal

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.data import DataConfig
from openrlhf.config.env import EnvConfig
from openrlhf.config.model import ActorConfig, CriticConfig, RefConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.rollout import SyncBackend, VllmConfig
from openrlhf.config.run import ClusterConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.types import Prompt, SamplingParams

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """All samples wanted of one draw of a prompt."""

    prompt: Prompt
    group_id: str
    n: int
    sampling: SamplingParams
    seeds: tuple[int, ...] | None = None  # one per sample; None: the engine's own generator


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where one rank stands in its process group, and where the group meets."""

    rank: int
    world_size: int
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class SyncSpec:
    """How weights leave the policy."""

    backend: SyncBackend
    dtype: str  # the engines', e.g. "bf16"
    num_receivers: int  # engine processes: engines times tensor parallel size
    timeout: float  # seconds


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """The trained policy.

    `total_steps` is the number of optimiser steps that the schedule spans, `response_limit` the most tokens of a
    response (the length by which a `constant` loss aggregation divides).
    """

    actor: ActorConfig
    ds: DsConfig
    train: TrainConfig
    algo: AlgoConfig
    temperature: float
    device: Device
    total_steps: int
    sync: SyncSpec
    collective_timeout: float  # seconds that a rank waits for the others
    response_limit: int
    max_images: int = 0  # that a prompt or episode may show


@dataclass(frozen=True, slots=True)
class ReferenceSpec:
    """The frozen reference policy."""

    ref: RefConfig
    ds: DsConfig
    train: TrainConfig
    temperature: float
    device: Device
    collective_timeout: float
    max_images: int = 0


@dataclass(frozen=True, slots=True)
class CriticSpec:
    """The value model of GAE, trained beside the policy; `total_steps` and `response_limit` as in PolicySpec.

    Its losses become one number as the actor's do, and activations are recomputed where the actor's are. `calibrated`:
    values are put on the scale that the checkpoint's config records (its `mean` and `std`), as the rewards of a reward
    model are with --reward.normalize_enable.
    """

    critic: CriticConfig
    ds: DsConfig
    train: TrainConfig
    loss_aggregation: Literal["token", "sequence", "constant"]
    response_limit: int
    calibrated: bool
    device: Device
    total_steps: int
    collective_timeout: float
    gradient_checkpointing: bool = False
    gradient_checkpointing_reentrant: bool = False


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """The frozen reward models: their weighted sum is the reward of a sequence.

    `policy_model` and `data` tell whose token ids arrive; a reward model with another vocabulary reads their text.
    """

    models: tuple[str, ...]
    weights: tuple[float, ...]  # one per model
    reward: RewardConfig
    ds: DsConfig
    train: TrainConfig
    policy_model: str
    data: DataConfig
    device: Device
    collective_timeout: float


ModelSpec = PolicySpec | ReferenceSpec | CriticSpec | RewardSpec


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One vLLM engine, with the agent that runs its samples or the reward source that scores them."""

    model_name_or_path: str
    vllm: VllmConfig
    data: DataConfig
    reward: RewardConfig
    device: Device
    seed: int
    sync_timeout: float  # seconds
    partial_rollout: bool = False  # running requests go on with new weights
    agent_func_path: str | None = None  # None: single-turn samples
    env: EnvConfig = field(default_factory=EnvConfig)  # of the environments that prompts name


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """All of a run's processes."""

    policy: PolicySpec
    reference: ReferenceSpec | None  # None: the KL coefficient is 0
    engine: EngineSpec
    cluster: ClusterConfig
    critic: CriticSpec | None = None  # None: the estimator needs no values
    reward: RewardSpec | None = None  # None: rewards come from a function or a server
