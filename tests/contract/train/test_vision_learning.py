"""Tiny vision-language models learn to name colours by reinforcement, with the data room, the trainer's forward pass
and its loss; the engine's part, one sampled word, is drawn from the model itself. What they learn they learn from the
pictures: with other pictures under the same questions they do not.
"""

import importlib.util
import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from openrlhf.data.prompts import PromptSet, build_prompts
from openrlhf.models.forward import outputs_at
from openrlhf.models.load import load_causal_lm
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.make import vision_inputs
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.packing import collate, pack, step_totals
from openrlhf.train.step import accumulate_gradient
from openrlhf.types import Experience, Prompt, RewardOutcome, Rollout, RolloutGroup, Segment
from tests.fakes import TorchBackend
from tests.vision_models import chosen

EXAMPLE = Path(__file__).parents[3] / "examples" / "vision"
# Steps and learning rate. Qwen3-VL's encoder feeds two layers of the language model and is better moved slowly.
PACE = {"idefics3": (60, 1e-3), "qwen2_5_vl": (60, 1e-3), "qwen3_vl": (120, 5e-4)}
PROMPTS, SAMPLES = 16, 8


def example(name: str) -> ModuleType:
    sys.path.insert(0, str(EXAMPLE))
    try:
        spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The example's colour task."""
    folder = tmp_path_factory.mktemp("vision")
    for name, rows in zip(("train", "test"), example("make_data").make_rows(folder, ("colour",)), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Callable[[str], Path]:
    """The example's model of an architecture, made once."""
    made: dict[str, Path] = {}

    def folder_of(architecture: str) -> Path:
        if architecture not in made:
            prepare = example("prepare_model")
            model, processor = prepare.make(architecture)
            prepare.teach_the_form(model, processor)
            made[architecture] = tmp_path_factory.mktemp(architecture)
            model.save_pretrained(made[architecture])
            processor.save_pretrained(made[architecture])
        return made[architecture]

    return folder_of


class Learner:
    def __init__(self, model_path: Path, rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        model = load_causal_lm(str(model_path), torch.float32, "sdpa")
        vision = vision_inputs(str(model_path), model.config, max_images=1, trained=True)
        assert vision is not None
        self.vision: VisionInputs = vision
        self.tokenizer = vision.processor.processor.tokenizer
        self.backend = TorchBackend(model)
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
        self.generator = np.random.default_rng(seed)

    def prompts(self, path: Path) -> PromptSet:
        return build_prompts(
            str(path),
            tokenizer=self.tokenizer,
            input_key="prompt",
            label_key="label",
            apply_chat_template=True,
            vision=self.vision.processor,
        )

    def _segment(self, prompt: Prompt, words: list[int]) -> Segment:
        ids = self.tokenizer(prompt.text, add_special_tokens=False)["input_ids"]
        ids = self.vision.processor.expand(ids, prompt.images) + words
        mask = np.arange(len(ids)) >= len(ids) - len(words)
        zeros = np.zeros(len(ids), dtype=np.float32)
        return Segment(np.array(ids), mask, mask, zeros, np.where(mask, 0, -1).astype(np.int32), (), prompt.images)

    def _experience(self, prompts: list[Prompt], words: np.ndarray, rewards: np.ndarray) -> Experience:
        """Rows of `words` (P, n) are the samples of a prompt."""
        groups = []
        for number, prompt in enumerate(prompts):
            rollouts = [
                Rollout(
                    str(number),
                    f"{number}/{i}",
                    prompt,
                    (self._segment(prompt, [int(word)]),),
                    RewardOutcome(r, r),
                    False,
                )
                for i, (word, r) in enumerate(zip(words[number], rewards[number].tolist(), strict=True))
            ]
            groups.append(RolloutGroup(str(number), tuple(rollouts)))
        return collate(groups)

    def probabilities(self, prompts: list[Prompt]) -> np.ndarray:
        """(P, V), of the first word of the answer."""
        experience = self._experience(prompts, np.zeros((len(prompts), 1)), np.zeros((len(prompts), 1)))
        rows = range(len(experience))
        batch = pack(experience, rows, step_totals(experience, rows))
        predictors = torch.from_numpy(np.flatnonzero(batch.action_mask) - 1)
        with torch.no_grad():
            logits = outputs_at(self.backend, batch, predictors, "padded", vision=self.vision).logits
        logits[:, list(self.vision.banned_ids)] = -torch.inf
        return logits.double().softmax(-1).numpy()

    def score(self, prompts: list[Prompt]) -> float:
        """Mean probability of the right word."""
        right = [self.tokenizer.convert_tokens_to_ids(prompt.label) for prompt in prompts]
        return float(self.probabilities(prompts)[np.arange(len(prompts)), right].mean())

    def step(self, prompts: list[Prompt]) -> None:
        """group_norm: A = (r - mean) / std over the samples of a prompt."""
        words = np.stack([self.generator.choice(len(p), SAMPLES, p=p) for p in self.probabilities(prompts)])
        right = np.array([[self.tokenizer.convert_tokens_to_ids(prompt.label)] for prompt in prompts])
        rewards = (words == right).astype(np.float64)
        experience = self._experience(prompts, words, rewards)
        spread = rewards.std(1, keepdims=True)
        advantages = ((rewards - rewards.mean(1, keepdims=True)) / np.maximum(spread, 1e-6)).reshape(-1, 1)
        experience.advantages = np.where(experience.action_mask, advantages, 0).astype(np.float32)
        rows = range(len(experience))
        batch = pack(experience, rows, step_totals(experience, rows))
        self.optimiser.zero_grad()
        accumulate_gradient(
            self.backend, [batch], PolicyObjective(), kl_coef=0.0, layout="padded", temperature=1.0, vision=self.vision
        )
        torch.nn.utils.clip_grad_norm_(self.backend.model.parameters(), 1.0)
        self.optimiser.step()


def learn(
    model_path: Path, folder: Path, pace: tuple[int, float], seed: int = 0, mismatched: bool = False
) -> tuple[float, float]:
    """Mean probability of the right colour on held-out pictures, before and after."""
    steps, rate = pace
    learner = Learner(model_path, rate, seed)
    train, test = list(learner.prompts(folder / "train.jsonl")), list(learner.prompts(folder / "test.jsonl"))
    if mismatched:
        train, test = with_others_pictures(train), with_others_pictures(test)
    before = learner.score(test)
    drawn = random.Random(seed)
    for _ in range(steps):
        learner.step(drawn.sample(train, PROMPTS))
    after = learner.score(test)
    print(f"held-out colours, {model_path.name}, seed {seed}, mismatched={mismatched}: {before:.3f} -> {after:.3f}")
    return before, after


def with_others_pictures(prompts: list[Prompt]) -> list[Prompt]:
    """Each question keeps its answer and gets another one's picture, drawn at random."""
    images = [prompt.images for prompt in prompts]
    random.Random(1).shuffle(images)
    return [replace(prompt, images=other) for prompt, other in zip(prompts, images, strict=True)]


RUNS = [
    pytest.param(name, seed, marks=() if (name, seed) == ("idefics3", 0) else pytest.mark.slow)
    for name in chosen()
    for seed in (0, 1)
]


@pytest.mark.parametrize(("architecture", "seed"), RUNS)
def test_colours_are_learnt_from_pictures(folder, models, architecture, seed):
    before, after = learn(models(architecture), folder, PACE[architecture], seed)
    assert before < 0.3
    assert after >= 0.85


@pytest.mark.slow
def test_control_with_mismatched_pictures_nothing_is_learnt(folder, models):
    _, after = learn(models("idefics3"), folder, PACE["idefics3"], mismatched=True)
    assert after < 0.4
