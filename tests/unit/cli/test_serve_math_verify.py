"""The math service's command: what ends it before it serves, and what the documents may write."""

import pytest

from openrlhf.cli.serve_math_verify import main
from openrlhf.config.serve_math_verify import parse_serve_math_verify


def test_problems_are_one_line_each(capsys):
    assert main(["--port", "70000", "--workers", "0", "--wall_seconds", "0"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --workers 0: must be at least 1",
        "error: --port 70000: must be from 0 to 65535",
        "error: --wall_seconds 0.0: must be over 0",
    ]


def test_defaults_are_the_seeds_port():
    config, warnings = parse_serve_math_verify([])
    assert (config.port, config.workers, warnings) == (10008, None, ())


def test_an_unknown_flag(capsys):
    assert main(["--reward.remote_url", "x"]) == 2
    assert "is no flag of serve_math_verify" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_exits(word, capsys):
    with pytest.raises(SystemExit):
        main([word])
    assert "--cpu_seconds" in capsys.readouterr().out.replace("-", "_").replace("__cpu", "--cpu")
