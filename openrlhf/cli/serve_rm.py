"""Serve trained reward models over HTTP, for `--reward.remote_url http://host:5000/get_reward`.

    python3 -m openrlhf.cli.serve_rm --reward.model_name_or_path M [--port 5000] [--data.max_len 2048] ...

Exit codes: 0 stopped by a signal, 1 it failed, 2 the command cannot run as given (one line on stderr per problem), 130
or 143 a signal came before it served.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from openrlhf.cli.http_service import serve_until_signal
from openrlhf.cli.outcome import EXIT_REFUSED, ExceptionTypes, read_or_refuse, run_to_exit_code
from openrlhf.config.data import DataConfig
from openrlhf.config.serve_rm import ServeRmConfig, parse_serve_rm
from openrlhf.config.train import DsConfig

if TYPE_CHECKING:
    from openrlhf.reward.model import RewardModels


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, load, and serve until a signal; returns the exit code."""
    config = read_or_refuse(lambda: parse_serve_rm(sys.argv[1:] if argv is None else argv))
    if config is None:
        return EXIT_REFUSED
    return run_to_exit_code(lambda: _serve(config), _expected_failures)


def _serve(config: ServeRmConfig) -> None:
    from openrlhf.reward.server import AT_ONCE, make_app

    models = _load(config)
    at_once = max(AT_ONCE, config.batch_size or 0)
    app = make_app(lambda texts: models.score_texts(texts, config.batch_size), config.reward.models, at_once)
    names = ", ".join(config.reward.models)

    def banner(address: str) -> str:
        return f"reward models {names} at {address}/get_reward"

    serve_until_signal(app, config.host, config.port, banner, drop_left=True)


def _expected_failures() -> ExceptionTypes:
    from openrlhf.models.errors import ModelError

    return (ModelError, OSError)  # OSError: the port is taken


def _load(config: ServeRmConfig) -> "RewardModels":
    import torch

    from openrlhf.models.replica import ReplicaBackend
    from openrlhf.reward.model import load_reward_models

    device = torch.device(config.device)
    given = config.ds
    ds = DsConfig(
        zero_stage=0,
        param_dtype=given.param_dtype,
        attn_implementation=given.attn_implementation,
        experts_implementation=given.experts_implementation,
        packing_samples=given.packing_samples,
        value_head_prefix=given.value_head_prefix,
    )
    return load_reward_models(
        config.reward.models,
        config.reward.weights,
        ds=ds,
        data=DataConfig(max_len=config.data.max_len),
        device=config.device,
        calibrated=config.reward.normalize_enable,
        hold=lambda model, runner: ReplicaBackend(model, device, runner=runner),
    )


if __name__ == "__main__":
    sys.exit(main())
