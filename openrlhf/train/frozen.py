"""Where the weights of a frozen model are kept."""

import torch
from transformers import PreTrainedModel

from openrlhf.config.train import DsConfig
from openrlhf.models.replica import ReplicaBackend
from openrlhf.models.scoring import FrozenBackend
from openrlhf.train.context import WorkerContext


def frozen_backend(
    model: PreTrainedModel,
    ds: DsConfig,
    offload: bool,
    context: WorkerContext,
    *,
    runner: torch.nn.Module | None = None,
) -> FrozenBackend:
    """Sharded over the ranks with ZeRO-3: all of them must then run equally many micro-batches. Otherwise every rank
    holds the whole model.

    Args:
        runner: what is run, where that is not the model itself.
        offload: the weights stay in CPU memory between passes.
    """
    if ds.zero_stage != 3:
        return ReplicaBackend(model, context.torch_device, runner=runner, offload=offload)
    from openrlhf.train.deepspeed.engine import DeepSpeedScoringBackend, init_distributed

    init_distributed(context)
    return DeepSpeedScoringBackend(model, ds, offload, context, runner=runner)
