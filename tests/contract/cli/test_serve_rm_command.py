"""The reward server's command: what ends it before it serves."""

from openrlhf.cli.serve_rm import main
from tests.models import make_tiny_llama


def test_problems_are_one_line_each(capsys) -> None:
    assert main(["--port", "-1", "--device", "cpu"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --reward.model_name_or_path is missing: name at least one reward model",
        "error: --port -1: must be from 0 to 65535",
    ]


def test_a_model_without_a_head_is_one_line(tmp_path, capsys) -> None:
    path = str(make_tiny_llama(tmp_path / "lm", hidden_size=64, num_layers=1))
    assert main(["--reward.model_name_or_path", path, "--port", "0", "--device", "cpu"]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "it has no head 'score', so it is no trained reward model" in lines[0]
