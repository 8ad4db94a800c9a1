"""The embeddings, the head and the hidden matrices of a model, by its modules: names differ between architectures."""

import torch
from transformers import PreTrainedModel

SCORE = "score"  # the head's name in every decoder classifier of transformers


def head_of(model: PreTrainedModel) -> torch.nn.Module:
    """What makes logits, or the numbers of a classifier, of hidden states. AttributeError for a model without one."""
    head: torch.nn.Module | None = model.get_output_embeddings()
    return model.get_submodule(SCORE) if head is None else head


def hidden_matrices(model: PreTrainedModel) -> set[str]:
    """Names of the parameters that are matrices from hidden states to hidden states: no table whose rows are looked up
    (tokens, positions), no head, gain or bias, and no stack of experts' matrices."""
    tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    others = {parameter for module in (head_of(model), *tables) for parameter in module.parameters()}
    return {name for name, parameter in model.named_parameters() if parameter.ndim == 2 and parameter not in others}
