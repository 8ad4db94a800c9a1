"""The optimiser of one trained model: AdamW, or Muon with AdamW for what Muon does not fit.

DeepSpeed's Muon orthogonalises whole matrices where ZeRO hands out their gradient, so the parameters carry the mark
`use_muon` that it looks for. It always takes 5 Newton-Schulz steps and Nesterov momentum.
"""

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam
from transformers import PreTrainedModel

from openrlhf.config.model import ActorConfig, AdamConfig, CriticConfig
from openrlhf.models.parts import hidden_matrices
from openrlhf.train.deepspeed.build import building

_NS_STEPS = 5  # DeepSpeed's own


def make_optimiser(
    model: PreTrainedModel, config: ActorConfig | CriticConfig, *, offload: bool, device: str
) -> torch.optim.Optimizer:
    """The optimiser that `config.optim` names, over the trainable parameters.

    Args:
        offload: AdamW that steps in CPU memory; Muon has none (ValueError).
    """
    if config.optim == "adam":
        return make_adam(model, config.adam, offload)
    if offload:
        raise ValueError("muon cannot step in CPU memory: leave out --ds.adam_offload")
    return _make_muon(model, config, device)


def make_adam(model: PreTrainedModel, adam: AdamConfig, offload: bool) -> torch.optim.Optimizer:
    """AdamW over the trainable parameters; biases and norm gains (1-D) are not decayed."""
    groups = _adam_groups([parameter for parameter in model.parameters() if parameter.requires_grad], adam)
    if offload:
        with building():
            return DeepSpeedCPUAdam(groups, lr=adam.lr, betas=adam.betas, eps=adam.eps, adamw_mode=True)
    return torch.optim.AdamW(groups, lr=adam.lr, betas=adam.betas, eps=adam.eps, fused=True)


def _make_muon(model: PreTrainedModel, config: ActorConfig | CriticConfig, device: str) -> torch.optim.Optimizer:
    from deepspeed.runtime.zero.muon.muon_optimizer import MuonWithAuxAdam  # compiles its kernels when imported

    if device == "cpu":
        torch.compiler.set_stance("force_eager")  # compiling for a CPU takes minutes and saves nothing
    muon, adam = config.muon, config.adam
    if (muon.ns_steps, muon.nesterov) != (_NS_STEPS, True):
        raise ValueError(
            f"muon with ns_steps {muon.ns_steps} and nesterov {muon.nesterov}: it has {_NS_STEPS} and True"
        )
    fitting = hidden_matrices(
        model
    )  # without stacks of experts' matrices, which DeepSpeed's Muon does not take in bf16
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.use_muon = name in fitting  # type: ignore[attr-defined]  # DeepSpeed's own mark
            (matrices if name in fitting else others).append(parameter)
    hidden = {"params": matrices, "lr": muon.lr, "momentum": muon.momentum, "weight_decay": adam.weight_decay}
    groups: list[dict[str, object]] = [hidden | {"use_muon": True}]
    for group in _adam_groups(others, adam):
        groups.append(group | {"lr": adam.lr, "betas": adam.betas, "eps": adam.eps, "use_muon": False})
    return MuonWithAuxAdam(
        groups, adam_optimizer=torch.optim.AdamW, adam_optimizer_kwargs={"lr": adam.lr, "fused": True}
    )


def _adam_groups(parameters: list[torch.nn.Parameter], adam: AdamConfig) -> list[dict[str, object]]:
    groups: list[dict[str, object]] = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": adam.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
