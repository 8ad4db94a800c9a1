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
    little: nothing is clipped, and Muon does not depend on the gradient's size anyway.

    Raises:
        ValueError: states that are to sleep and that DeepSpeed cannot move.
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
    """The stage asked for, or another one that computes the same numbers where DeepSpeed lacks something in it.

    - Gradients that add up in fp32 beside 16-bit weights need ZeRO: 1 for 0.
    - States that sleep (`ds.enable_sleep`) need the optimiser of stage 2: 2 for 0 and 1.
    - Muon in 16 bits adds up gradients and keeps momentum in fp32 at stage 1 only: 1 for 0 and 2. In fp32 it runs
      under ZeRO like everywhere else: 1 for 0.
    """
    mixed = ds.dtype != "fp32"
    if muon and mixed and ds.enable_sleep:
        raise ValueError("--ds.enable_sleep: DeepSpeed cannot move Muon's states in 16 bits; leave it out, or use adam")
    if muon and mixed and ds.zero_stage < 3:
        return 1
    if ds.enable_sleep:
        return max(ds.zero_stage, 2)
    accumulated = ds.grad_accum_dtype or "fp32"
    return 1 if ds.zero_stage == 0 and (accumulated != ds.dtype or muon) else ds.zero_stage


def _number_format(ds: DsConfig) -> dict[str, Any]:
    """16-bit weights for forward and backward, with fp32 ones behind them that the optimiser steps."""
    return {} if ds.dtype == "fp32" else {ds.dtype: {"enabled": True}}


def _zero(ds: DsConfig, stage: int, device: str) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": stage, "overlap_comm": ds.overlap_comm}
    if device == "cpu":
        zero |= {"reduce_bucket_size": _CPU_BUCKET, "allgather_bucket_size": _CPU_BUCKET}
    return zero
