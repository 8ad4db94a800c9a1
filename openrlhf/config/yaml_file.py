"""The config as YAML: `--config run.yaml` read, and the resolved config written beside every run."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from openrlhf.config.errors import ConfigError
from openrlhf.config.legacy import RENAMED
from openrlhf.config.names import nearest
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flags, flatten, nest, values

SECRETS = ("logger.wandb.key",)


def to_yaml(config: PPOConfig) -> str:
    """The whole config, secrets left out, in a form that `read_yaml` reads back equal."""
    flat = {
        path: list(value) if isinstance(value, tuple) else value
        for path, value in values(config).items()
        if path not in SECRETS
    }
    return yaml.safe_dump(nest(flat), sort_keys=False)


def _unknown(source: str, key: str) -> str:
    if key in RENAMED:
        return f"{source}: {key} is an old name; write {RENAMED[key]}"
    names = nearest(key, flags())
    return f"{source}: no key {key}" + (f"; nearest: {', '.join(names)}" if names else "")


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key may stand once; the usual loader takes the last silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice[0]} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _leaves(tree: Any) -> int:
    return sum(map(_leaves, tree.values())) if isinstance(tree, dict) else 1


def _load(path: str) -> dict[str, Any]:
    try:
        tree = yaml.load(Path(path).read_text(), _StrictLoader)
    except OSError as error:
        raise ConfigError([f"--config {path}: {error.strerror}"]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([f"--config {path}: {' '.join(str(error).split())}"]) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError([f"--config {path}: holds a {type(tree).__name__}, not keys and values"])
    flat = flatten(tree)
    if len(flat) != _leaves(tree):
        raise ConfigError([f"--config {path}: a key stands twice, nested and with dots"])
    return flat


def read_yaml(path: str) -> PPOConfig:
    """Defaults from a YAML file with nested or dotted keys; ConfigError names every unknown key and wrong value.

    Values equal to the default count as not given, so a dumped config does not look as if every flag had been typed.
    """
    flat = {key: None if value == "None" else value for key, value in _load(path).items()}
    problems = [_unknown(path, key) for key in flat if key not in flags()]
    known = {key: value for key, value in flat.items() if key in flags()}
    try:
        config = PPOConfig.model_validate(nest(known))
    except ValidationError as error:
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"])
            problems.append(f"{path}: {key} {fault['input']!r}: {fault['msg']}")
    if problems:
        raise ConfigError(problems)
    read = values(config)
    return PPOConfig.model_validate(nest({key: read[key] for key in known if read[key] != flags()[key].default}))
