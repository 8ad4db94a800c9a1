"""What the policy loss is made of."""

from dataclasses import dataclass

from openrlhf.config.algo import AlgoConfig, KlEstimator
from openrlhf.config.model import ActorConfig, PolicyLossType
from openrlhf.rl.correction import Correction
from openrlhf.rl.losses.aggregation import TOKEN_MEAN, Aggregation


@dataclass(frozen=True, slots=True)
class PolicyObjective:
    """The parts of the policy loss; constant during a run but for the KL coefficient.

    Raises ValueError for parts that cannot go together.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None  # cispo, which bounds every ratio, does not read it
    aggregation: Aggregation = TOKEN_MEAN
    entropy_coef: float | None = None  # None: no entropy; 0: logged only
    kl_estimator: KlEstimator = "k1"
    kl_in_loss: bool = False
    correction: Correction | None = None
    loss_type: PolicyLossType = "ppo"

    def __post_init__(self) -> None:
        if self.loss_type == "gspo" and self.aggregation.mode != "sequence":
            raise ValueError(
                f"policy loss 'gspo' has one ratio per sequence and needs aggregation 'sequence', "
                f"not {self.aggregation.mode!r}"
            )

    @classmethod
    def from_config(cls, actor: ActorConfig, algo: AlgoConfig, max_new_tokens: int | None = None) -> "PolicyObjective":
        """max_new_tokens: the longest response there can be, rollout.max_new_tokens or data.max_len.

        Only actor.loss_aggregation constant reads it (ValueError where it is missing then).
        """
        low, high = actor.eps_clip_low_high or (actor.eps_clip, actor.eps_clip)
        return cls(
            clip_low=low,
            clip_high=high,
            dual_clip=actor.dual_clip,
            aggregation=Aggregation.from_config(actor, max_new_tokens),
            entropy_coef=actor.entropy_coef,
            kl_estimator=algo.kl.estimator,
            kl_in_loss=algo.kl.use_loss,
            correction=Correction.from_config(algo.advantage),
            loss_type=actor.policy_loss_type,
        )
