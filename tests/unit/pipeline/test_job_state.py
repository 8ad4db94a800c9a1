"""What a resumed run needs beside the weights."""

import pickle

from openrlhf.data.ledger import PromptState
from openrlhf.pipeline.ppo_sync import train

ADAPTIVE = {
    "algo.kl.init_coef": 0.1,
    "algo.kl.use_loss": True,
    "algo.kl.estimator": "k2",
    "algo.kl.target": 1.0,
    "algo.kl.horizon": 100.0,
    "train.num_episodes": 2,
}


def asked(run) -> list[tuple[str, int]]:
    return [(request.group_id, request.prompt.prompt_id) for step in run.engines.requests for request in step]


def test_a_run_that_was_cut_and_resumed_does_what_an_uncut_one_does(rig):
    uncut = rig(ADAPTIVE, prompts=5)
    train(uncut.job)
    cut = rig(ADAPTIVE | {"train.max_steps": 4}, prompts=5)
    train(cut.job)
    state = pickle.loads(pickle.dumps(cut.job.state_dict()))
    cut.job.tracker.close()

    resumed = rig(ADAPTIVE, prompts=5)
    resumed.job.load_state_dict(state)
    assert (resumed.job.step, resumed.job.version) == (4, 4)
    train(resumed.job)
    # 5 prompts in steps of 2: 3 steps per episode, 6 in two; the same prompts, never one twice.
    assert asked(cut) + asked(resumed) == asked(uncut)
    assert resumed.job.kl.coef == uncut.job.kl.coef
    assert resumed.job.ledger.counts() == uncut.job.ledger.counts()
    assert resumed.job.ledger.counts()[PromptState.TRAINED] == 10
    assert [row["step"] for row in resumed.rows()] == [1, 2, 3, 4, 5, 6]
