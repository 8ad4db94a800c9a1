"""Policy losses by name. A new one is a file beside this one and a line in the table."""

from collections.abc import Callable
from dataclasses import dataclass

from openrlhf.rl.losses.cispo import cispo
from openrlhf.rl.losses.gspo import gspo
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.ppo import ppo
from openrlhf.rl.losses.surrogate import TokenLosses
from openrlhf.rl.losses.tokens import LossTokens


@dataclass(frozen=True, slots=True)
class PolicyLossKind:
    """How the loss of each token is made, and whether importance weights are multiplied onto it."""

    name: str
    token_losses: Callable[[LossTokens, PolicyObjective], TokenLosses]
    weighted: bool  # False: the loss corrects by itself


POLICY_LOSSES = {
    kind.name: kind
    for kind in (
        PolicyLossKind("ppo", ppo, weighted=True),
        PolicyLossKind("gspo", gspo, weighted=False),
        PolicyLossKind("cispo", cispo, weighted=True),
    )
}


def policy_loss_kind(name: str) -> PolicyLossKind:
    """Return the policy loss of that name, or raise ValueError listing those that exist."""
    if name not in POLICY_LOSSES:
        raise ValueError(f"unknown policy loss {name!r}, one of {', '.join(POLICY_LOSSES)} is possible")
    return POLICY_LOSSES[name]
