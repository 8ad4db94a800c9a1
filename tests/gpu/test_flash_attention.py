"""FlashAttention on packed rows: each sequence is scored as if it were alone."""

import pytest
import torch

from openrlhf.models.load import load_causal_lm
from openrlhf.models.replica import ReplicaBackend
from openrlhf.train.forward import token_logprobs
from tests.batches import micro_batches, random_experience
from tests.models import make_tiny_llama

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

LENGTHS = (9, 21, 5, 14)


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_flash_attention_keeps_sequences_apart(tmp_path, layout):
    pytest.importorskip("flash_attn", reason="flash_attn is not installed")
    path = str(make_tiny_llama(tmp_path / "tiny"))
    experience = random_experience(LENGTHS)
    (together,) = micro_batches(experience, [[0, 1, 2, 3]])
    flash = ReplicaBackend(load_causal_lm(path, torch.bfloat16, "flash_attention_2"), torch.device("cuda"))
    (found,) = token_logprobs(flash, [together], layout=layout, temperature=1.0)
    exact = ReplicaBackend(load_causal_lm(path, torch.float32, "sdpa"), torch.device("cpu"))
    alone = token_logprobs(exact, micro_batches(experience, [[0], [1], [2], [3]]), layout="packed", temperature=1.0)
    expected = torch.cat([torch.from_numpy(part) for part in alone])
    # bf16 rounds each logprob by up to a few hundredths; sequences that saw each other would be off by whole nats.
    assert (torch.from_numpy(found) - expected).abs().max() < 0.3
