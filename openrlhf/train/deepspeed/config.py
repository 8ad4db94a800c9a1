"""DeepSpeed's own configuration, from ours."""

from typing import Any

from openrlhf.config.train import DsConfig

_CPU_BUCKET = 50_000_000  # elements of a reduction buffer; DeepSpeed's default of 5e8 is meant for GPUs


def training_config(ds: DsConfig, max_norm: float, world_size: int, device: str, muon: bool = False) -> dict[str, Any]:
    """The dictionary for `deepspeed.initialize` of a trained model.

    One optimiser step takes as many micro-batches as its tokens need, so DeepSpeed's own accumulation count stays 1
    (no hidden division) and the engine is told where the step ends. Gradients add up in `ds.grad_accum_dtype`,
    fp32 unless told otherwise: a long sum in bf16 loses its small terms.

    With `muon` the gradient that DeepSpeed would clip is already orthogonalised, where a norm of 1 would be far too
    little: nothing is clipped, and Muon does not depend on the gradient's size anyway. ZeRO then always runs, so that
    what is orthogonalised does not depend on the stage.
    """
    config: dict[str, Any] = {
        "train_batch_size": world_size,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0 if muon else max_norm,
        "zero_allow_untested_optimizer": True,  # torch's AdamW is elementwise, so it may run on shards
        "steps_per_print": 1_000_000_000,
        "zero_optimization": _zero(ds, _training_stage(ds, muon), device),
        "data_types": {"grad_accum_dtype": ds.grad_accum_dtype or "fp32"},
    } | _number_format(ds)
    if muon:
        config["zero_optimization"]["reduce_scatter"] = False  # every rank needs the whole matrices' gradients
    if ds.adam_offload:
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu", "pin_memory": device == "cuda"}
    return config


def scoring_config(ds: DsConfig, offload: bool, world_size: int, device: str) -> dict[str, Any]:
    """The dictionary for a sharded model that is only run forward (ZeRO-3)."""
    config: dict[str, Any] = {
        "train_batch_size": world_size,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "steps_per_print": 1_000_000_000,
        "zero_optimization": _zero(ds, ds.zero_stage, device),
    } | _number_format(ds)
    if offload:
        config["zero_optimization"]["offload_param"] = {"device": "cpu", "pin_memory": device == "cuda"}
    return config


def _training_stage(ds: DsConfig, muon: bool) -> int:
    """The stage asked for, but 1 for 0 where only ZeRO does what is wanted.

    Without ZeRO, DeepSpeed only adds up 16-bit gradients in 16 bits, and cannot move its states (`ds.enable_sleep`).
    Stage 1 computes the same numbers with an fp32 sum (and shards the optimiser, which nobody sees).
    """
    accumulated = ds.grad_accum_dtype or "fp32"
    needs_zero = accumulated != ds.dtype or ds.enable_sleep or muon
    return 1 if ds.zero_stage == 0 and needs_zero else ds.zero_stage


def _number_format(ds: DsConfig) -> dict[str, Any]:
    """16-bit weights for forward and backward, with fp32 ones behind them that the optimiser steps."""
    return {} if ds.dtype == "fp32" else {ds.dtype: {"enabled": True}}


def _zero(ds: DsConfig, stage: int, device: str) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": stage, "overlap_comm": ds.overlap_comm}
    if device == "cpu":
        zero |= {"reduce_bucket_size": _CPU_BUCKET, "allgather_bucket_size": _CPU_BUCKET}
    return zero
