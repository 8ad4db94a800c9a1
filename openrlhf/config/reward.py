"""Flags of the reward: where it comes from and what happens to it before advantages."""

from typing import Literal

from openrlhf.config.base import Section
from openrlhf.config.disk import expanded, is_file


class RewardConfig(Section):
    """The reward source and the shaping of raw rewards."""

    model_name_or_path: str | None = None
    """Hugging Face name or local folder of a trained reward model; commas separate several, whose scores are added."""
    model_weights: tuple[float, ...] | None = None
    """Weight of each reward model in the sum. None: 1 each."""
    remote_url: str | None = None
    """A Python file with `reward_func(queries, prompts, labels)`, or one or more http addresses of reward servers,
    separated by commas and used in turn."""
    max_concurrent: int = 32
    """Calls of `reward_func` that each vLLM engine has at work at once, in as many threads. Reward servers have a limit
    of their own."""
    clip_range: tuple[float, float] = (-10.0, 10.0)
    """Raw rewards are clamped to this range before anything else is computed from them."""
    ungraded: Literal["drop_sample", "drop_group", "zero", "abort"] = "drop_sample"
    """What to do with a sample that got no verdict (grader down, NaN): leave it out, leave its whole group out, give it
    reward 0, or stop the run."""
    abort_after: int | None = None
    """Stop the run, with a checkpoint, after so many samples without a verdict in a row, in the order in which they
    are done, evaluation included. None: never."""
    normalize_enable: bool = False
    """Normalise rewards by the mean and standard deviation of all rewards of the run so far."""
    overlong_buffer_len: float | None = None
    """Responses longer than rollout.max_new_tokens (else data.max_len) minus this many tokens are penalised. None:
    off."""
    overlong_penalty_factor: float = 1.0
    """Penalty at the very end of the overlong buffer."""
    stop_properly_penalty_coef: float | None = None
    """For truncated responses: a factor (0 to 1) on a reward above 0, or the reward itself (negative). None: off."""
    offload: bool = False
    """Keep the reward model's weights in CPU memory between its forward passes."""
    num_nodes: int = 1
    """Nodes that hold the reward model."""
    num_gpus_per_node: int | None = None
    """GPUs per node that hold the reward model; on CPU, processes per node. None: as many as the actor."""

    @property
    def is_given(self) -> bool:
        """Whether a source of rewards is named."""
        return bool(self.sources or self.models)

    @property
    def models(self) -> tuple[str, ...]:
        """The comma list of `model_name_or_path`, split. Empty when it is None."""
        return tuple(part.strip() for part in (self.model_name_or_path or "").split(",") if part.strip())

    @property
    def sources(self) -> tuple[str, ...]:
        """The comma list of `remote_url`, split; a file of that name is taken whole. Empty when it is None."""
        if self.remote_url and is_file(expanded(self.remote_url)):
            return (self.remote_url,)
        return tuple(part.strip() for part in (self.remote_url or "").split(",") if part.strip())

    @property
    def is_function(self) -> bool:
        """Whether rewards come from a Python file."""
        return len(self.sources) == 1 and self.sources[0].endswith(".py")
