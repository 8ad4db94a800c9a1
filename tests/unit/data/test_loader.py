"""The order of prompts, and exact resume (case e1)."""

import random

import numpy as np
import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.loader import PromptLoader
from openrlhf.data.prompts import PromptSet
from openrlhf.types import Prompt


def _set(count, prefix="p"):
    return PromptSet([Prompt(i, f"{prefix}{i}") for i in range(count)])


def _loader(count=8, batch_size=2, seed=42, num_episodes=1):
    return PromptLoader(_set(count), batch_size, seed, num_episodes)


def _batches(loader):
    result = []
    while prompts := loader.draw():
        result.append((loader.episode, [prompt.prompt_id for prompt in prompts]))
    return result


def test_every_prompt_once_per_episode_and_the_last_batch_is_short():
    loader = _loader(count=11, batch_size=4, num_episodes=3)
    batches = _batches(loader)
    assert [(episode, len(ids)) for episode, ids in batches] == [(e, n) for e in range(3) for n in (4, 4, 3)]
    for episode in range(3):
        assert sorted(i for e, ids in batches if e == episode for i in ids) == list(range(11))
    assert loader.finished
    assert loader.batches_per_episode == 3
    assert loader.draw() == []


def test_the_order_differs_by_episode_and_seed_and_is_not_that_of_the_file():
    batches = [batch for seed in (1, 2) for batch in _batches(_loader(50, 50, seed, 2))]
    orders = [tuple(ids) for _, ids in batches]
    assert len({*orders, tuple(range(50))}) == 5


def test_the_order_ignores_global_generators():
    random.seed(1)
    np.random.seed(1)
    first = _batches(_loader(50, num_episodes=2))
    random.seed(2)
    np.random.seed(2)
    assert _batches(_loader(50, num_episodes=2)) == first


def test_the_order_is_pinned():
    # Positions sorted by the raw output of PCG64 (XSL-RR, 128/64) seeded by SeedSequence([1, 42, episode]), computed
    # by a few lines of plain Python integers. Neither NumPy nor a refactoring may change what old checkpoints mean.
    assert _batches(_loader(8, 8, 42, 2)) == [(0, [1, 3, 5, 4, 7, 2, 6, 0]), (1, [0, 5, 4, 7, 6, 2, 3, 1])]


def test_a_draw_never_reaches_over_the_end_of_an_episode():
    loader = _loader(count=5, num_episodes=2)
    assert len(loader.draw(4)) == 4
    assert loader.remaining == 1
    assert len(loader.draw(4)) == 1
    assert (loader.episode, loader.remaining, loader.finished) == (0, 0, False)
    assert loader.draw(1, same_episode=True) == []
    assert loader.episode == 0
    assert len(loader.draw(3, same_episode=False)) == 3
    assert (loader.episode, loader.remaining) == (1, 2)
    assert len(loader.draw(9, same_episode=True)) == 2
    assert loader.finished


@pytest.mark.parametrize("drawn", [0, 1, 2, 3, 4, 5, 7, 8])
def test_a_resumed_loader_continues_exactly(drawn):
    """Case e1: 8 prompts, batches of 2; stops in the middle, at the end of an episode, and in the second one."""
    whole = _batches(_loader(num_episodes=2))
    loader = _loader(num_episodes=2)
    for _ in range(drawn):
        loader.draw()
    resumed = _loader(num_episodes=2)
    resumed.load_state_dict(loader.state_dict())
    assert (resumed.episode, resumed.remaining) == (loader.episode, loader.remaining)
    assert _batches(resumed) == whole[drawn:]


def test_a_resume_in_the_middle_of_a_batch_with_another_batch_size_and_more_episodes():
    whole = [i for _, ids in _batches(_loader(num_episodes=3)) for i in ids]
    loader = _loader(num_episodes=1)
    loader.draw(3)
    resumed = _loader(batch_size=3, num_episodes=3)
    resumed.load_state_dict(loader.state_dict())
    assert [i for _, ids in _batches(resumed) for i in ids] == whole[3:]


def test_a_saved_state_does_not_change_afterwards():
    loader = _loader()
    state = loader.state_dict()
    before = dict(state)
    loader.draw()
    assert state == before


def test_another_dataset_or_seed_is_refused_and_leaves_the_loader_at_its_start():
    state = _loader()
    state.draw(5)
    saved = state.state_dict()
    for prompts in (_set(3), _set(8, "other")):
        loader = PromptLoader(prompts, 2, 42, 1)
        with pytest.raises(DataError, match=rf"not the one of the checkpoint \({len(prompts)} prompts now, 8 then\)"):
            loader.load_state_dict(saved)
        assert loader.remaining == len(prompts)
    with pytest.raises(DataError, match="seed 1, but the checkpoint's order came from seed 42"):
        _loader(seed=1).load_state_dict(saved)
    with pytest.raises(DataError, match="version 99"):
        _loader().load_state_dict({**saved, "version": 99})


def test_sizes_below_one_are_refused():
    for arguments in ({"batch_size": 0}, {"num_episodes": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match="must"):
            _loader(**arguments)
    with pytest.raises(ValueError, match="n must be at least 1"):
        _loader().draw(0)
