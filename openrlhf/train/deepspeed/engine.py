"""DeepSpeed as a training backend: ZeRO 0 to 3 over gloo (CPU) or NCCL (CUDA).

Import this module only after `WorkerContext.apply()`: DeepSpeed reads its accelerator from the environment.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.runtime.zero.offload_config import OffloadStateTypeEnum
from deepspeed.runtime.zero.offload_states import offload_optimizer_states, reload_optimizer_states
from transformers import PreTrainedModel

from openrlhf.config.train import DsConfig
from openrlhf.train.backend import StepResult
from openrlhf.train.context import WorkerContext
from openrlhf.train.deepspeed.build import skip_shm_comm
from openrlhf.train.deepspeed.config import scoring_config, training_config
from openrlhf.train.deepspeed.gather import Slices, gathered_weights
from openrlhf.train.deepspeed.saving import PatientWriter

_TAG = "trainer"  # subfolder of a checkpoint


def init_distributed(context: WorkerContext) -> None:
    """Join the process group of this model's ranks; waits for the others at most `context.timeout_s` seconds."""
    deepspeed.logger.setLevel(logging.ERROR)
    skip_shm_comm()
    backend = "nccl" if context.device == "cuda" else "gloo"
    deepspeed.init_distributed(
        dist_backend=backend,
        auto_mpi_discovery=False,
        verbose=False,
        timeout=timedelta(seconds=context.timeout_s),
        rank=context.rank,
        world_size=context.world_size,
    )


class DeepSpeedTrainBackend:
    """A trained model (see `TrainBackend`). Gradients are sums: the caller's losses carry their own denominators."""

    def __init__(
        self,
        model: PreTrainedModel,
        optimizer: torch.optim.Optimizer,
        ds: DsConfig,
        max_norm: float,
        context: WorkerContext,
        *,
        runner: torch.nn.Module | None = None,
    ) -> None:
        self.model = model
        self.device = context.torch_device
        self._world_size = context.world_size
        self._sharded = ds.zero_stage == 3
        muon = any(group.get("use_muon") for group in optimizer.param_groups)
        config = training_config(ds, max_norm, context.world_size, context.device, muon)
        self._peaks = [group["lr"] for group in optimizer.param_groups]
        self._settings = [
            {name: value for name, value in group.items() if name not in ("params", "lr")}
            for group in optimizer.param_groups
        ]
        self._engine, *_ = deepspeed.initialize(
            model=runner or model, optimizer=optimizer, config=config, dist_init_required=False
        )
        self._writer = PatientWriter(self._engine.checkpoint_engine)
        self._engine.checkpoint_engine = self._writer
        # Scripts that turn a checkpoint into weights: `hf/` holds them already, and rank 0 would fail alone at this.
        self._engine._copy_recovery_script = lambda save_path: None
        self._optimizer = optimizer
        self._slices = Slices(model, self._sharded, context.rank, context.world_size)
        self._asleep = False

    def outputs(self, **inputs: Any) -> Any:
        self._engine.train(torch.is_grad_enabled())
        return self._engine(**inputs, use_cache=False)

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        self._engine.set_gradient_accumulation_boundary(last)
        self._engine.backward(loss * self._world_size)  # DeepSpeed averages over ranks

    def step(self, factor: float) -> StepResult:
        for group, peak in zip(self._optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak * factor
        plain_norm = self._plain_grad_norm()
        self._engine.step()
        norm = plain_norm if plain_norm is not None else self._engine.get_global_grad_norm()
        applied = self._engine.was_step_applied()
        return StepResult(float(norm) if norm is not None and applied else float("nan"), applied)

    def _plain_grad_norm(self) -> float | None:
        """The gradient's norm where DeepSpeed does not report one: without ZeRO and without mixed precision."""
        if self._engine.zero_optimization() or self._engine.fp16_enabled() or self._engine.bfloat16_enabled():
            return None
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        return float(torch.nn.utils.get_total_norm(gradients))

    def named_weights(self, trained_only: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
        return gathered_weights(self.model, self._sharded, trained_only)

    def local_slices(self) -> Iterator[tuple[str, torch.Tensor]]:
        return self._slices.local()

    def whole_slices(self, slices: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        return self._slices.whole(slices)

    def sleep(self) -> None:
        """Move the states to CPU memory. With ZeRO-3 the fp32 weights stay: DeepSpeed moves them for its own Adam only.

        Raises:
            RuntimeError: without ZeRO (fp32 at stage 0) there is no engine state to move.
        """
        if self._asleep:
            return
        if not self._engine.zero_optimization():
            raise RuntimeError("--ds.enable_sleep needs --ds.zero_stage 1 or higher")
        states = set(OffloadStateTypeEnum)
        if self._sharded:
            states -= {OffloadStateTypeEnum.optim_states, OffloadStateTypeEnum.hp_params}
            offload_optimizer_states(self._optimizer, "cpu")
        self._engine.offload_states(include=states, pin_memory=self.device.type == "cuda")
        self._asleep = True

    def wake(self) -> None:
        if not self._asleep:
            return
        self._engine.reload_states()
        if self._sharded:
            reload_optimizer_states(self._optimizer, self.device)
        self._asleep = False

    def save(self, folder: Path | str, extra: dict[str, Any]) -> None:
        """Write weights, optimiser and `extra` (plain values) to `folder`. Collective.

        Raises:
            OSError, RuntimeError: this rank's disk refused; the other ranks finish.
        """
        self._writer.refused = None
        self._engine.save_checkpoint(str(folder), tag=_TAG, client_state=extra, save_latest=False)
        if self._writer.refused is not None:
            raise self._writer.refused

    def load(self, folder: Path | str) -> dict[str, Any]:
        """Read what `save` wrote and return its `extra`; the optimiser keeps the settings it was made with. Collective.

        Raises:
            FileNotFoundError: there is no checkpoint in `folder`.
        """
        found, extra = self._engine.load_checkpoint(str(folder), tag=_TAG, load_lr_scheduler_states=False)
        if found is None:
            raise FileNotFoundError(f"no trainer checkpoint in {folder}")
        # The states are the checkpoint's, the settings (weight decay, betas, ...) this run's; torch takes both from it.
        for group, settings in zip(self._optimizer.param_groups, self._settings, strict=True):
            group.update(settings)
        return extra

    def close(self) -> None:
        self._engine.destroy()


class DeepSpeedScoringBackend:
    """A frozen model whose weights are sharded over the ranks (ZeRO-3)."""

    def __init__(
        self,
        model: PreTrainedModel,
        ds: DsConfig,
        offload: bool,
        context: WorkerContext,
        *,
        runner: torch.nn.Module | None = None,
    ) -> None:
        self.model = model
        self.device = context.torch_device
        config = scoring_config(ds, offload, context.world_size, context.device)
        self._engine, *_ = deepspeed.initialize(model=runner or model, config=config, dist_init_required=False)
        self._engine.eval()

    def outputs(self, **inputs: Any) -> Any:
        return self._engine(**inputs, use_cache=False)

    def loaded(self) -> AbstractContextManager[None]:
        return nullcontext()  # DeepSpeed fetches each layer's weights by itself
