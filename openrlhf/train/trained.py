"""What every trained model has: a backend, a schedule, checkpoints, and a way out as a Hugging Face folder."""

import logging
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import PreTrainedModel

from openrlhf.config.model import ActorConfig, CriticConfig
from openrlhf.config.train import DsConfig
from openrlhf.models.errors import ModelError
from openrlhf.models.export import save_hf
from openrlhf.models.load import check_vocabulary
from openrlhf.models.model_folder import model_folder
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.rl.metrics import MetricSum
from openrlhf.train.context import WorkerContext
from openrlhf.train.schedule import LearningRate

Role = Literal["actor", "critic"]
logger = logging.getLogger(__name__)


class TrainedModel:
    """One rank of a model that is trained. Every method is collective: all ranks call it.

    Args:
        runner: what the backend runs, where that is not the model itself.
        vision: of a vision-language model, whose folder has a processor beside the tokenizer.
    """

    def __init__(
        self,
        role: Role,
        config: ActorConfig | CriticConfig,
        model: PreTrainedModel,
        ds: DsConfig,
        context: WorkerContext,
        total_steps: int,
        *,
        runner: torch.nn.Module | None = None,
        vision: VisionInputs | None = None,
    ) -> None:
        from openrlhf.train.deepspeed.engine import DeepSpeedTrainBackend, init_distributed
        from openrlhf.train.deepspeed.optimiser import make_optimiser

        self._role = role
        self._rank = context.rank
        self._peak = peak_rate(config)
        self._schedule = LearningRate(
            config.lr_scheduler, 1.0, total_steps, config.lr_warmup_ratio, config.min_lr_ratio
        )
        path = model_path(role, config)
        tokenizer = load_tokenizer(path, padding=False)
        check_vocabulary(path, model, tokenizer)
        self._texts = tokenizer if vision is None else vision.processor.processor  # a processor holds its tokenizer
        init_distributed(context)
        optimiser = make_optimiser(model, config, offload=ds.adam_offload, device=context.device)
        self._backend = DeepSpeedTrainBackend(model, optimiser, ds, config.max_norm, context, runner=runner)
        self.optimiser_steps = 0

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights, but for those few that the model holds in a wider format than the others."""
        formats = {weight.dtype for weight in self._backend.model.parameters() if weight.is_floating_point()}
        return min(formats, key=lambda dtype: dtype.itemsize)

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every weight whole, under its Hugging Face name, a tied output head left out.

        A tensor is valid until the next is drawn. Every rank must draw them all.
        """
        return self._backend.named_weights()

    def sleep(self) -> None:
        """Leave the GPU's memory to others; `wake` must come before anything else."""
        self._backend.sleep()

    def wake(self) -> None:
        self._backend.wake()

    def save(self, folder: Path | str) -> None:
        """Write what a resumed run needs: weights, optimiser, schedule position, and each rank's random generators."""
        steps = {"optimiser_steps": self.optimiser_steps, "schedule_steps": self._schedule.total_steps}
        self._backend.save(folder, steps)
        torch.save(_random_state(), self._random_file(folder))

    def load(self, folder: Path | str) -> None:
        """Continue from what `save` wrote; a schedule of another length, and what it does to the rate, is said.

        Raises:
            FileNotFoundError: there is no checkpoint in `folder`, or none of this rank.
        """
        state = self._backend.load(folder)
        self.optimiser_steps = state["optimiser_steps"]
        saved_steps = state.get(
            "schedule_steps", self._schedule.total_steps
        )  # checkpoints may be older than this entry
        moved = self._schedule.moved(saved_steps, self.optimiser_steps)
        if moved is not None and self._rank == 0:
            logger.warning("%s: %s", self._role, moved)
        _set_random_state(torch.load(self._random_file(folder), weights_only=False))

    def close(self) -> None:
        self._backend.close()

    def _random_file(self, folder: Path | str) -> Path:
        return Path(folder) / f"random_rank_{self._rank}.pt"

    def _step(self) -> dict[str, MetricSum]:
        """Step the optimiser on the gradient that has been accumulated.

        Raises:
            FloatingPointError: the gradient is NaN or infinite; the weights are lost.
        """
        factor = self._schedule.at(self.optimiser_steps)
        result = self._backend.step(factor)
        metrics = {f"train/{self._role}_lr": MetricSum(self._peak * factor if result.applied else 0.0, 1.0)}
        if result.applied:
            self.optimiser_steps += 1
            if not math.isfinite(result.grad_norm):
                raise FloatingPointError(f"optimiser step {self.optimiser_steps}: gradient norm {result.grad_norm}")
            metrics[f"train/{self._role}_grad_norm"] = MetricSum(result.grad_norm, 1.0)
        return metrics

    def _export(
        self, weights: Iterator[tuple[str, torch.Tensor]], folder: Path | str, renamed: Mapping[str, str] | None = None
    ) -> None:
        """Write a Hugging Face model folder on rank 0; the others help gathering."""
        kept: dict[str, torch.Tensor] = {}
        for name, weight in weights:
            if self._rank == 0:
                kept[name] = weight.to("cpu", copy=True)
        if self._rank == 0:
            with model_folder(folder) as hidden:
                save_hf(self._backend.model, kept, self._texts, hidden, renamed)


def model_path(role: Role, config: ActorConfig | CriticConfig) -> str:
    """Raises ModelError where no model is named."""
    if config.model_name_or_path is None:
        raise ModelError(f"the {role} has no model: set --{role}.model_name_or_path")
    return config.model_name_or_path


def peak_rate(config: ActorConfig | CriticConfig) -> float:
    """The peak learning rate of the optimiser; with muon that of its matrices, beside which AdamW has its own."""
    return config.muon.lr if config.optim == "muon" else config.adam.lr


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
