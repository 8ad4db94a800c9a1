"""A command that can run: a model folder, prompts and a reward file on disk, and the flags that name them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.machine import Machine
from openrlhf.config.parse import parse_ppo
from openrlhf.config.resolve import Resolution, resolve

CPU = Machine(num_gpus=0, packages=frozenset({"tensorboard"}))

ResolveFlags = Callable[..., Resolution]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"max_position_embeddings": 8192}')
    (tmp_path / "prompts.jsonl").write_text('{"input": "1+1", "label": "2"}\n')
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    return [1.0]\n")
    return tmp_path


@pytest.fixture
def base() -> list[str]:
    """The least that a run needs; 128 samples per rollout, as many as the default train.batch_size."""
    flags = "--actor.model_name_or_path ./model --data.prompt_dataset prompts.jsonl --reward.remote_url reward.py "
    flags += "--algo.advantage.estimator reinforce_baseline --rollout.batch_size 16 --rollout.n_samples_per_prompt 8"
    return flags.split()


@pytest.fixture
def resolve_flags(workplace: Path, base: list[str]) -> ResolveFlags:
    """Resolve `base` and more flags, given as one string or a list, on a machine (default: no GPU)."""

    def resolved(
        more: str | Sequence[str] = "",
        machine: Machine = CPU,
        environ: dict[str, str] | None = None,
        bare: bool = False,
    ) -> Resolution:
        words = more.split() if isinstance(more, str) else list(more)
        parsed = parse_ppo(words if bare else base + words)
        return resolve(parsed.config, environ or {}, machine, workplace)

    return resolved


@pytest.fixture
def problems(resolve_flags: ResolveFlags) -> Callable[..., list[str]]:
    """The problems that a command has; fails where it has none."""

    def collected(*args: object, **kwargs: object) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            resolve_flags(*args, **kwargs)
        return list(caught.value.problems)

    return collected
