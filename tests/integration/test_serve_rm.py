"""The reward server as a user starts it, asked by the trainer's own client."""

import asyncio
import signal
import subprocess
import sys

import pytest
import torch
from transformers import LlamaForSequenceClassification

from openrlhf.models.export import save_hf
from openrlhf.reward.http import HttpReward
from openrlhf.types import Prompt
from tests.models import make_tiny_tokenizer, tiny_llama_config

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

TEXTS = ["user: 1+1\nassistant: 2</s>", "user: 2+2\nassistant: 5", "x" * 100]
MAX_LEN = 40


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "rm"
    config = tiny_llama_config(hidden_size=64)
    config.num_labels, config.initializer_range = 1, 0.1
    torch.manual_seed(0)
    classifier = LlamaForSequenceClassification(config)
    save_hf(classifier, dict(classifier.named_parameters()), make_tiny_tokenizer(), folder)
    return folder, classifier


def expected(classifier, text: str) -> float:
    """transformers on one text: hidden state of its last token, through the head."""
    ids = make_tiny_tokenizer()(text)["input_ids"][-MAX_LEN:]
    with torch.no_grad():
        return float(classifier.score(classifier.base_model(torch.tensor([ids])).last_hidden_state[0, -1])[0])


async def ask(url: str) -> list[float]:
    source = HttpReward([url], tries=1)
    try:
        prompt = Prompt(0, "user: ", "7")
        outcomes = await asyncio.gather(*(source.score(text, prompt, "") for text in TEXTS * 4))
    finally:
        await source.close()
    return [outcome.reward for outcome in outcomes]


def test_scores_are_the_model_s_and_a_signal_ends_it(model) -> None:
    folder, classifier = model
    command = [sys.executable, "-m", "openrlhf.cli.serve_rm", "--reward.model_name_or_path", str(folder)]
    command += ["--port", "0", "--host", "127.0.0.1", "--data.max_len", str(MAX_LEN)]
    command += ["--ds.param_dtype", "fp32", "--device", "cpu"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert " at http://127.0.0.1:" in line, line + server.communicate()[1]
        found = asyncio.run(ask(line.split(" at ")[1].strip()))
        server.send_signal(signal.SIGTERM)
        output, errors = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0, errors
    assert output == ""
    assert found == pytest.approx([expected(classifier, text) for text in TEXTS] * 4, abs=1e-5)
    assert len({round(value, 4) for value in found}) == len(TEXTS)
