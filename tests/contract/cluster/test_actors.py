"""The actors as plain objects, in this process: what they load from a spec, and what they answer."""

import os
from unittest.mock import patch

import numpy as np
import torch
from transformers import LlamaForSequenceClassification

from openrlhf.cluster.actors import RewardActor
from openrlhf.cluster.specs import RankPlace, RewardSpec
from openrlhf.config.data import DataConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.export import save_hf
from openrlhf.rl.packing import filler
from tests.batches import micro_batches, random_experience
from tests.models import make_tiny_tokenizer, tiny_llama_config


def reward_folder(path, seed: int, **settings: float) -> str:
    config = tiny_llama_config(hidden_size=64, num_layers=1)
    config.num_labels, config.initializer_range = 1, 0.1
    torch.manual_seed(seed)
    model = LlamaForSequenceClassification(config)
    model.config.update(settings)
    save_hf(model, dict(model.named_parameters()), make_tiny_tokenizer(), path)
    return str(path)


def test_reward_models_are_loaded_added_and_calibrated(tmp_path) -> None:
    folders = (reward_folder(tmp_path / "a", 0), reward_folder(tmp_path / "b", 1, mean=0.5, std=2.0))
    (batch,) = micro_batches(random_experience((9, 5)), [[0, 1]])

    def score(models, weights, calibrated) -> np.ndarray:
        actor = RewardActor.__ray_metadata__.modified_class()
        spec = RewardSpec(
            models=models,
            weights=weights,
            reward=RewardConfig(offload=True, normalize_enable=calibrated),
            ds=DsConfig(zero_stage=2, param_dtype="fp32"),
            train=TrainConfig(),
            policy_model=models[0],
            data=DataConfig(max_len=32),
            device="cpu",
            collective_timeout=10.0,
        )
        with patch.dict(os.environ):  # a worker's own variables
            actor.load(spec, RankPlace(0, 1, "127.0.0.1", 1))
        found, of_filler = actor.score([batch, filler(batch.totals)])
        assert len(of_filler) == 1
        return found

    first, second = score(folders[:1], (1.0,), False), score(folders[1:], (1.0,), False)
    assert np.ptp(first) > 0.01
    np.testing.assert_allclose(score(folders, (1.0, 2.0), False), first + 2 * second, atol=1e-5)
    np.testing.assert_allclose(score(folders, (1.0, 2.0), True), first + 2 * (second - 0.5) / 2.0, atol=1e-5)
