"""A config that can run: a model folder, prompts and a reward file on disk, and the flags that name them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.machine import Machine
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.resolve import Resolution, resolve
from openrlhf.config.schema import nest

# The least that a run needs. A rollout has 16 x 8 = 128 samples, as many as the default train.batch_size.
BASE: dict[str, Any] = {
    "actor.model_name_or_path": "./model",
    "data.prompt_dataset": "prompts.jsonl",
    "reward.remote_url": "reward.py",
    "algo.advantage.estimator": "reinforce_baseline",
    "rollout.batch_size": 16,
    "rollout.n_samples_per_prompt": 8,
}


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"max_position_embeddings": 100000}')
    (tmp_path / "prompts.jsonl").write_text('{"input": "1+1", "label": "2"}\n')
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    return [1.0]\n")
    return tmp_path


@pytest.fixture
def resolved(workplace: Path) -> Callable[..., Resolution]:
    """resolved({"train.seed": 1}, gpus=0, environ={}): BASE with these flags, as if typed (None in BASE's place: left
    out)."""

    def run(
        changes: dict[str, Any] | None = None,
        gpus: int = 0,
        environ: dict[str, str] | None = None,
        packages: tuple[str, ...] = ("tensorboard",),
        runs_ray: bool = False,
        cpu_has_bf16: bool = True,
        root: Path | None = None,
    ) -> Resolution:
        flat = BASE | (changes or {})
        config = PPOConfig.model_validate(nest({path: value for path, value in flat.items() if value is not None}))
        machine = Machine(gpus, frozenset(packages), runs_ray, cpu_has_bf16)
        return resolve(config, environ or {}, machine, root or workplace)

    return run


@pytest.fixture
def problems(resolved: Callable[..., Resolution]) -> Callable[..., list[str]]:
    """The problems of a config, called like `resolved`; fails where it has none."""

    def run(*args: Any, **kwargs: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            resolved(*args, **kwargs)
        return list(caught.value.problems)

    return run
