"""The load-balancing loss of mixture-of-experts models."""

from collections.abc import Sequence

import torch
from transformers import PretrainedConfig

from openrlhf.models.errors import ModelError


def experts_per_token(path: str, config: PretrainedConfig) -> int:
    """How many experts a token is routed to.

    Raises:
        ModelError: the model has no routers whose logits it can return.
    """
    settings = config.get_text_config().to_dict()
    if "output_router_logits" not in settings or "num_experts_per_tok" not in settings:
        raise ModelError(
            f"model {path!r}: --actor.aux_loss_coef is set, but a {config.model_type} model returns no router logits; "
            "leave it at 0"
        )
    return int(settings["num_experts_per_tok"])


def balance_loss(router_logits: Sequence[torch.Tensor], top_k: int, real: torch.Tensor | None = None) -> torch.Tensor:
    """How unevenly tokens are spread over experts; top_k at an even spread, up to E at the worst.

        E sum_e f_e P_e,   f_e = share of tokens whose top k hold expert e,   P_e = mean router probability of e

    averaged over layers. Source: Fedus et al. 2021, Switch Transformers, section 2.2, for k experts per token.

    Args:
        router_logits: (T, E) of each layer.
        real: (T,) bool, the tokens that count; None: all.
    """
    losses = []
    for logits in router_logits:
        flat = logits.reshape(-1, logits.shape[-1])
        probabilities = (flat if real is None else flat[real]).float().softmax(-1)
        chosen = probabilities.topk(top_k, dim=-1).indices
        picks = torch.zeros_like(probabilities).scatter_(1, chosen, 1.0)
        losses.append(probabilities.shape[-1] * (picks.mean(0) * probabilities.mean(0)).sum())
    return torch.stack(losses).mean()
