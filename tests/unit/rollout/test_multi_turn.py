"""Episodes of agents: public cases c1 and c2, budgets, failures, and tokens in, tokens out."""

import asyncio
import http.server
import logging
import random
import threading
import time

import numpy as np
import pytest
import torch

from openrlhf.rollout.agent import AgentInstanceBase
from openrlhf.rollout.errors import EngineDead
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.types import Completion, SamplingParams, Status, Turn
from tests.agent_fakes import MergingTokenizer, agent, play, within
from tests.fakes import FakeImageTokens, FakeTokenizer, ScriptedEngine, completion
from tests.pictures import file_of, picture, plain


def done_at(steps: int, **more):
    """Reward 1 and done at the given step, feedback `!` before."""

    def step(instance, states):
        done = instance.steps == steps
        return {"rewards": float(done), "done": done, "environment_feedback": "!", **more}

    return step


async def test_prompt_actions_and_feedback_form_one_segment():
    engine = ScriptedEngine(lambda call: completion("xy", eos=False, finish_reason="stop", version=3))
    trajectory = await play(MultiTurnAgentExecutor(agent(done_at(2))), engine, prompt="ab")
    (segment,) = trajectory.segments
    assert FakeTokenizer().decode(segment.token_ids.tolist()) == "abxy!xy"  # nothing after done
    assert segment.action_mask.tolist() == [False, False, True, True, False, True, True]
    assert segment.loss_mask.tolist() == segment.action_mask.tolist()
    assert segment.logprobs.tolist() == [0, 0, -0.5, -1.0, 0, -0.5, -1.0]
    assert segment.policy_versions.tolist() == [-1, -1, 3, 3, -1, 3, 3]
    assert segment.turns == (Turn(2, 4), Turn(5, 7))
    assert [call.prompt_token_ids for call in engine.calls] == [[97, 98], [97, 98, 120, 121, 33]]
    assert (trajectory.outcome.reward, trajectory.outcome.score, trajectory.truncated) == (1.0, 1.0, False)


async def test_sampled_ids_are_never_tokenised_again():
    # The policy samples x, y as two tokens; the tokenizer would write them as one. Feedback and prompt use the merge.
    tokenizer, merged = MergingTokenizer(), MergingTokenizer.MERGED
    sampled = np.array([120, 121])
    assert tokenizer(tokenizer.decode(sampled.tolist()), add_special_tokens=False)["input_ids"] != sampled.tolist()
    engine = ScriptedEngine(
        lambda call: Completion(sampled, np.array([-1.0, -2.0], np.float32), "stop", np.zeros(2, np.int32))
    )
    step = done_at(2)
    executor = MultiTurnAgentExecutor(agent(lambda self, states: step(self, states) | {"environment_feedback": "xy"}))
    (segment,) = (await play(executor, engine, prompt="axy", tokenizer=tokenizer)).segments
    assert segment.token_ids.tolist() == [97, merged, 120, 121, merged, 120, 121]
    assert segment.action_mask.tolist() == [False, False, True, True, False, True, True]


async def test_the_agent_sees_text_and_facts():
    kind = agent(done_at(2))
    instances = []

    class Watched(kind):
        def __init__(self):
            super().__init__()
            instances.append(self)

    engine = ScriptedEngine(lambda call: completion("x"))
    await play(MultiTurnAgentExecutor(Watched), engine, prompt="ab")
    reset, first, second = instances[0].seen
    assert (reset["observation"], reset["label"], reset["images"]) == ("ab", "L", [])
    assert (first["observation_text"], first["action_text"], first["turn"]) == ("ab", "x<eos>", 0)
    assert (second["observation_text"], second["action_text"], second["turn"]) == ("abx<eos>!", "x<eos>", 1)
    assert (second["label"], second["finish_reason"], second["sampling_params"].max_tokens) == ("L", "stop", 8)


def seeing(max_images: int = 8) -> ScriptedEngine:
    return ScriptedEngine(lambda call: completion("x"), FakeImageTokens(max_images))


async def test_images_are_expanded_where_they_enter_and_stay_in_order():
    # 30 pixels of width are three # in the fake's tokens, 20 are two.
    first, second = picture(width=30), picture("blue", width=20)
    engine = seeing()
    step = done_at(2, environment_images=[second.decode()], environment_feedback="?<image>!")
    trajectory = await play(MultiTurnAgentExecutor(agent(step)), engine, prompt="a#b", images=[first])
    assert ["".join(map(chr, call.prompt_token_ids)) for call in engine.calls] == ["a(###)b", "a(###)bx\0?(##)!"]
    assert [call.images for call in engine.calls] == [[first], [first, second]]
    (segment,) = trajectory.segments
    assert segment.images == (first, second)
    assert segment.action_mask.tolist() == [False] * 7 + [True] * 2 + [False] * 6 + [True] * 2


@pytest.mark.parametrize(
    ("max_images", "max_length", "num_turns"),
    [
        (2, 64, 2),  # both fit
        (1, 64, 1),  # a second one would be one too many
        (2, 16, 2),  # 9 tokens and 6 of feedback leave one for the next action
        (2, 15, 1),  # leave none: the picture is left out whole
    ],
)
async def test_images_that_do_not_fit_end_the_episode(max_images, max_length, num_turns):
    engine = seeing(max_images)
    step = done_at(2, environment_images=[plain(width=20)], environment_feedback="?<image>!")
    trajectory = await play(
        MultiTurnAgentExecutor(agent(step)), engine, prompt="a#b", images=[picture()], max_length=max_length
    )
    (segment,) = trajectory.segments
    cut = num_turns == 1
    assert (len(engine.calls), len(segment.images)) == (num_turns, num_turns)
    assert (trajectory.truncated, trajectory.outcome.status) == (cut, Status.GRADED)
    assert len(segment.token_ids) == (9 if cut else 17)


async def test_more_images_than_the_flag_allows_are_told_once(caplog):
    step = done_at(3, environment_images=[plain()], environment_feedback="<image>")
    executor = MultiTurnAgentExecutor(agent(step))
    with caplog.at_level(logging.WARNING):
        await play(executor, seeing(3), prompt="#", images=[picture()])  # 1 + 1 + 1: all fit
        assert caplog.messages == []
        for _ in range(2):
            await play(executor, seeing(2), prompt="#", images=[picture()])
    (line,) = caplog.messages
    assert "is cut short at turn 2: with this feedback it would show 3 images" in line
    assert "--data.max_images_per_prompt is 2; raise it" in line


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"environment_images": [plain()], "environment_feedback": "none"}, "0 placeholders for 1 images"),
        ({"environment_images": [], "environment_feedback": "#"}, "1 placeholders for 0 images"),
        ({"environment_images": [], "environment_feedback": "<image>"}, "1 placeholders for 0 images"),
        ({"environment_images": None, "environment_feedback": "<image>"}, "1 placeholders for 0 images"),
        ({"environment_feedback": "<image>"}, "1 placeholders for 0 images"),
        ({"environment_images": ["/no/such.png"], "environment_feedback": "#"}, "/no/such.png: No such file"),
    ],
)
async def test_images_and_placeholders_that_do_not_match_leave_no_verdict(answer, reason):
    trajectory = await play(MultiTurnAgentExecutor(agent(done_at(2, **answer))), seeing(), prompt="a")
    assert trajectory.outcome.status is Status.UNGRADED
    assert reason in trajectory.outcome.reason


async def test_without_images_in_the_run_the_word_is_text():
    trajectory = await play(MultiTurnAgentExecutor(agent(done_at(2, environment_feedback="<image>"))), seeing(0))
    assert trajectory.outcome.status is Status.GRADED
    assert "<image>" in FakeTokenizer().decode(trajectory.segments[0].token_ids.tolist())


async def test_an_observation_of_reset_says_image_too():
    class Telling(agent(done_at(1))):
        async def reset(self, states, **kwargs):
            return {"observation": "see <image>"}

    engine = seeing()
    trajectory = await play(MultiTurnAgentExecutor(Telling), engine, prompt="#", images=[picture()])
    assert trajectory.outcome.status is Status.GRADED
    assert "".join(map(chr, engine.calls[0].prompt_token_ids)) == "see (###)"  # 30 pixels of width
    trajectory = await play(MultiTurnAgentExecutor(Telling), engine, prompt="a")
    assert trajectory.outcome.status is Status.UNGRADED
    assert "1 placeholders for 0 images" in trajectory.outcome.reason


@pytest.fixture
def slow_server():
    """The address of a picture that comes when it may, or after 10 seconds; and the event that lets it."""
    may_come = threading.Event()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            may_come.wait(10)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(file_of(plain()))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/a.png", may_come
        may_come.set()
        server.shutdown()


async def test_the_loop_goes_on_while_an_image_is_fetched(slow_server):
    address, may_come = slow_server
    executor = MultiTurnAgentExecutor(agent(done_at(2, environment_images=[address], environment_feedback="<image>")))
    episode, started = asyncio.create_task(play(executor, seeing(), prompt="a")), time.monotonic()
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not episode.done()
    assert time.monotonic() - started < 9  # with the loop blocked the picture has come first, after 10 s
    may_come.set()
    await within(60, episode)
    assert episode.result().segments[0].images == (picture(),)


async def test_fetching_an_image_is_under_the_agents_time_limit(slow_server):
    step = done_at(2, environment_images=[slow_server[0]], environment_feedback="<image>")
    trajectory = await within(5, play(MultiTurnAgentExecutor(agent(step), timeout_s=0.1), seeing(), prompt="a"))
    assert trajectory.outcome.status is Status.UNGRADED
    assert "step's environment_images took longer than 0.1 s" in trajectory.outcome.reason


async def test_images_that_come_with_done_are_not_read():
    step = done_at(1, environment_images=["/no/such.png"], environment_feedback="#")
    trajectory = await play(MultiTurnAgentExecutor(agent(step)), seeing(), prompt="a")
    assert (trajectory.outcome.status, trajectory.outcome.reward) == (Status.GRADED, 1.0)


async def test_an_image_too_many_for_the_context_leaves_no_verdict_at_the_start():
    trajectory = await play(
        MultiTurnAgentExecutor(agent(done_at(1))), seeing(), prompt="#", images=[picture(width=90)], max_length=10
    )
    assert trajectory.outcome.status is Status.UNGRADED
    assert "raise data.max_len" in trajectory.outcome.reason


async def test_case_c1_episodes_share_neither_agent_nor_sampling_params():
    # 8 episodes at once, labels L0..L7. Episode 0 changes its parameters in place at its first step, episode 1 returns
    # new ones with temperature 0.
    class Counting(AgentInstanceBase):
        def __init__(self):
            self.step_idx = 0

        async def reset(self, states, **kwargs):
            self.label = states["label"]
            return {"observation": states["observation"]}

        async def step(self, states, **kwargs):
            self.step_idx += 1
            assert states["label"] == self.label
            await asyncio.sleep(random.random() * 0.001)
            if self.label == "L0" and self.step_idx == 1:
                states["sampling_params"].max_tokens = 1
            fresh = SamplingParams(max_tokens=8, temperature=0.0) if self.label == "L1" else None
            done = self.step_idx == 3
            return {"rewards": 1.0, "done": done, "sampling_params": fresh, "extra_logs": {"label": int(self.label[1])}}

    engine = ScriptedEngine(lambda call: completion("x"))
    executor, shared = MultiTurnAgentExecutor(Counting), SamplingParams(max_tokens=8)
    labels = [f"L{i}" for i in range(8)]
    episodes = [play(executor, engine, prompt=label, label=label, sampling=shared) for label in labels]
    trajectories = await within(20, asyncio.gather(*episodes))
    for index, trajectory in enumerate(trajectories):
        assert trajectory.outcome.reward == 3.0  # three steps of its own
        assert trajectory.outcome.extra_logs == {"num_turns": 3.0, "label": 3.0 * index}
    asked = {label: [] for label in labels}
    for call in engine.calls:
        label = FakeTokenizer().decode(call.prompt_token_ids)[:2]
        asked[label].append((call.sampling.max_tokens, call.sampling.temperature))
    assert asked["L0"] == [(8, 1.0), (1, 1.0), (1, 1.0)]
    assert asked["L1"] == [(8, 1.0), (8, 0.0), (8, 0.0)]
    assert all(asked[label] == [(8, 1.0)] * 3 for label in labels[2:])
    assert (shared.max_tokens, shared.temperature) == (8, 1.0)
    # The next episode of label 0's first turn, with evaluation's own parameters.
    engine.calls.clear()
    await play(executor, engine, label="L7", sampling=SamplingParams(max_tokens=5, temperature=0.6))
    assert {(call.sampling.max_tokens, call.sampling.temperature) for call in engine.calls} == {(5, 0.6)}


async def test_a_stop_that_an_agent_sets_in_place_is_one_text():
    def step(self, states):
        states["sampling_params"].stop = "</answer>"
        return done_at(2)(self, states)

    engine = ScriptedEngine(lambda call: completion("x"))
    await play(MultiTurnAgentExecutor(agent(step)), engine)
    assert [call.sampling.stop for call in engine.calls] == [(), ("</answer>",)]


@pytest.mark.parametrize(
    ("reasons", "truncated"), [(["stop", "length"], True), (["length", "stop"], False), (["length"], True)]
)
async def test_case_c2_the_last_turns_finish_reason_decides_truncation(reasons, truncated):
    left = list(reasons)
    engine = ScriptedEngine(lambda call: completion("x", eos=False, finish_reason=left.pop(0)))
    trajectory = await play(MultiTurnAgentExecutor(agent(done_at(len(reasons)))), engine)
    assert trajectory.truncated is truncated
    assert trajectory.outcome.reward == 1.0


async def test_case_c2_single_turn_and_multi_turn_agree():
    engine = ScriptedEngine(lambda call: completion("x", eos=False, finish_reason="length"))
    multi = await play(MultiTurnAgentExecutor(agent(done_at(1))), engine)
    single = await play(SingleTurnExecutor(), engine)
    assert single.truncated is multi.truncated is True
    assert single.segments[0].token_ids.tolist() == multi.segments[0].token_ids.tolist()


async def test_a_turn_has_its_own_limit_and_what_is_left_of_the_context():
    # 2 prompt tokens, context 12, 4 tokens a turn, feedback of 1: asked for 4, then min(4, 12 - 7), then 12 - 12 = 0.
    engine = ScriptedEngine(lambda call: completion("x" * call.sampling.max_tokens, eos=False))
    trajectory = await play(MultiTurnAgentExecutor(agent(done_at(9))), engine, max_tokens=4, max_length=12)
    assert [call.sampling.max_tokens for call in engine.calls] == [4, 4]
    assert len(trajectory.segments[0].token_ids) == 12
    assert trajectory.truncated
    assert trajectory.outcome.status is Status.GRADED
    assert trajectory.outcome.reward == 0.0  # what the steps gave so far


async def test_a_turn_with_less_room_than_its_min_tokens_is_cut_not_refused():
    answer = {"rewards": 0.0, "done": False, "environment_feedback": "?"}
    engine = ScriptedEngine(lambda call: completion("x" * call.sampling.min_tokens, eos=False))
    sampling = SamplingParams(max_tokens=8, min_tokens=6)
    trajectory = await play(
        MultiTurnAgentExecutor(agent(lambda self, states: answer)), engine, sampling=sampling, max_length=13
    )
    # 2 tokens of the prompt, 6 and the feedback: 4 are left of 13.
    assert [(call.sampling.min_tokens, call.sampling.max_tokens) for call in engine.calls] == [(6, 8), (4, 4)]
    assert trajectory.truncated


async def test_without_a_turn_limit_a_turn_may_take_the_rest():
    engine = ScriptedEngine(lambda call: completion("x", eos=False, finish_reason="stop"))
    await play(MultiTurnAgentExecutor(agent(done_at(2))), engine, max_tokens=None, max_length=20)
    assert [call.sampling.max_tokens for call in engine.calls] == [18, 16]


async def test_feedback_that_overruns_is_cut_and_truncates():
    engine = ScriptedEngine(lambda call: completion("x", eos=False, finish_reason="stop"))
    step = done_at(2)
    executor = MultiTurnAgentExecutor(
        agent(lambda self, states: step(self, states) | {"environment_feedback": "!" * 9})
    )
    trajectory = await play(executor, engine, max_tokens=4, max_length=10)
    (segment,) = trajectory.segments
    assert FakeTokenizer().decode(segment.token_ids.tolist()) == "abx" + "!" * 7
    assert len(engine.calls) == 1
    assert trajectory.truncated


async def test_a_long_observation_keeps_its_end():
    engine = ScriptedEngine(lambda call: completion("x"))
    executor = MultiTurnAgentExecutor(agent(done_at(1), observe="0123456789"))
    trajectory = await play(executor, engine, max_tokens=4, max_length=10)
    assert FakeTokenizer().decode(trajectory.segments[0].token_ids.tolist()) == "456789x<eos>"


async def test_rewards_are_summed_and_the_last_score_stands():
    answers = [
        {"rewards": torch.tensor(0.25), "done": False, "scores": 1, "extra_logs": {"calls": 1}},
        {
            "rewards": np.float32(0.5),
            "done": False,
            "scores": torch.tensor([0.5]),
            "extra_logs": {"calls": torch.ones(1)},
        },
        {"rewards": 2, "done": torch.tensor(True), "extra_logs": {"solved": True}},
    ]
    engine = ScriptedEngine(lambda call: completion("x"))
    outcome = (await play(MultiTurnAgentExecutor(agent(lambda self, states: answers[self.steps - 1])), engine)).outcome
    assert (outcome.reward, outcome.score) == (2.75, 0.5)
    assert outcome.extra_logs == {"num_turns": 3.0, "calls": 2.0, "solved": 1.0}


async def test_rewards_can_be_kept_per_turn():
    engine = ScriptedEngine(lambda call: completion("x"))
    kind = agent(lambda self, states: {"rewards": 0.25 * self.steps, "done": self.steps == 2})
    trajectory = await play(MultiTurnAgentExecutor(kind, per_turn_rewards=True), engine)
    assert [turn.reward for turn in trajectory.segments[0].turns] == [0.25, 0.5]
    assert trajectory.outcome.reward == 0.75
    summed = await play(MultiTurnAgentExecutor(kind), engine)
    assert [turn.reward for turn in summed.segments[0].turns] == [None, None]


async def test_an_episode_that_stands_still_ends_truncated():
    # "x", then no token and no feedback: a third request would be the second one again. Reward 0.5 + 0.5.
    said = iter(["x", "", "never asked for"])
    engine = ScriptedEngine(lambda call: completion(next(said), eos=False, finish_reason="stop"))
    kind = agent(lambda self, states: {"rewards": 0.5, "done": False})
    trajectory = await within(5, play(MultiTurnAgentExecutor(kind), engine, prompt="ab"))
    assert [call.prompt_token_ids for call in engine.calls] == [[97, 98], [97, 98, 120]]
    assert (trajectory.outcome.reward, trajectory.truncated) == (1.0, True)
    assert trajectory.outcome.extra_logs["num_turns"] == 2.0


async def test_feedback_after_an_action_without_tokens_lets_the_episode_go_on():
    engine = ScriptedEngine(lambda call: completion("", eos=False, finish_reason="stop"))
    trajectory = await within(5, play(MultiTurnAgentExecutor(agent(done_at(3))), engine, prompt="ab"))
    assert [len(call.prompt_token_ids) for call in engine.calls] == [2, 3, 4]  # `!` after each
    assert not trajectory.truncated


@pytest.mark.parametrize("where", ["__init__", "reset", "step", "form"])
async def test_a_failing_agent_leaves_its_sample_ungraded_and_harms_no_other(where, caplog):
    class Failing(AgentInstanceBase):
        def __init__(self):
            if where == "__init__":
                raise KeyError("no state")

        async def reset(self, states, **kwargs):
            if where == "reset" and states["label"] == "bad":
                raise KeyError("no state")
            return {"observation": states["observation"]}

        async def step(self, states, **kwargs):
            if where == "step" and states["label"] == "bad":
                raise KeyError("no state")
            return {} if where == "form" and states["label"] == "bad" else {"rewards": 1.0, "done": True}

    engine, executor = ScriptedEngine(lambda call: completion("x")), MultiTurnAgentExecutor(Failing)
    with caplog.at_level(logging.WARNING):
        good, *bad = await asyncio.gather(*(play(executor, engine, label=label) for label in ("good", "bad", "bad")))
    assert where == "__init__" or good.outcome.reward == 1.0
    for trajectory in bad:
        assert trajectory.outcome.status is Status.UNGRADED
        expected = "returned no 'rewards'" if where == "form" else f"Failing.{where} raised KeyError: 'no state' at "
        assert expected in trajectory.outcome.reason
        assert bool(trajectory.segments) is (where in ("step", "form"))
    assert sum(executor.failures.counts().values()) == (3 if where == "__init__" else 2)
    warnings = [record for record in caplog.records if "ungraded" in record.message]
    assert len(warnings) == 1
    assert bool(warnings[0].exc_info) is (where != "form")


async def test_a_step_out_of_time_leaves_its_sample_ungraded():
    async def slow(self, states):
        if states["label"] == "bad":
            await asyncio.sleep(60)
        return {"rewards": 1.0, "done": True}

    executor = MultiTurnAgentExecutor(agent(slow), timeout_s=0.02)
    engine = ScriptedEngine(lambda call: completion("x"))
    bad, good = await within(10, asyncio.gather(*(play(executor, engine, label=label) for label in ("bad", "good"))))
    assert bad.outcome.reason == "ScriptedAgent.step took longer than 0.02 s"
    assert bad.outcome.status is Status.UNGRADED
    assert good.outcome.reward == 1.0


@pytest.mark.parametrize("reward", [None, float("nan"), 1e39, torch.tensor(float("nan"))])
async def test_no_verdict_on_a_step_is_none_on_the_episode(reward):
    kind = agent(lambda self, states: {"rewards": reward if self.steps == 1 else 1.0, "done": self.steps == 2})
    trajectory = await play(MultiTurnAgentExecutor(kind), ScriptedEngine(lambda call: completion("x")))
    assert trajectory.outcome.status is Status.UNGRADED


async def test_rewards_that_add_up_to_more_than_float32_holds_are_no_verdict():
    kind = agent(lambda self, states: {"rewards": 3e38, "done": self.steps == 2})
    outcome = (await play(MultiTurnAgentExecutor(kind), ScriptedEngine(lambda call: completion("x")))).outcome
    assert (outcome.status, outcome.reason) == (Status.UNGRADED, "the rewards of 2 turns add up to 6e+38")


async def test_engine_errors_are_not_the_agents():
    engine = ScriptedEngine(lambda call: EngineDead("vLLM engine 0 is dead"))
    with pytest.raises(EngineDead):
        await play(MultiTurnAgentExecutor(agent(done_at(1))), engine)


async def test_an_aborted_generation_has_no_verdict():
    engine = ScriptedEngine(lambda call: completion("x", finish_reason="aborted"))
    outcome = (await play(MultiTurnAgentExecutor(agent(done_at(1))), engine)).outcome
    assert (outcome.status, outcome.reason) == (Status.UNGRADED, "generation aborted")


async def test_every_instance_is_closed_and_a_bad_close_keeps_the_verdict():
    closed = []

    class Closing(agent(done_at(1))):
        async def close(self):
            closed.append(self.seen[0]["label"])
            if self.seen[0]["label"] == "bad":
                raise OSError("still open")

        async def step(self, states, **kwargs):
            if states["label"] == "raises":
                raise ValueError
            return await super().step(states)

    executor, engine = MultiTurnAgentExecutor(Closing), ScriptedEngine(lambda call: completion("x"))
    good, bad, raises = [await play(executor, engine, label=label) for label in ("good", "bad", "raises")]
    assert closed == ["good", "bad", "raises"]
    assert good.outcome.reward == bad.outcome.reward == 1.0
    assert raises.outcome.status is Status.UNGRADED


async def test_each_turn_draws_its_own_random_numbers():
    engine = ScriptedEngine(lambda call: completion("x"))
    sampling = SamplingParams(max_tokens=4, seed=11)
    await play(MultiTurnAgentExecutor(agent(done_at(3))), engine, sampling=sampling)
    seeds = [call.sampling.seed for call in engine.calls]
    assert seeds[0] == 11  # as a single turn's
    assert len(set(seeds)) == 3


async def test_changing_the_distribution_is_said_once(caplog):
    kind = agent(lambda self, states: done_at(3)(self, states) | {"sampling_params": {"temperature": 0.5}})
    with caplog.at_level(logging.WARNING):
        await play(MultiTurnAgentExecutor(kind), ScriptedEngine(lambda call: completion("x")))
    assert sum("another distribution" in record.message for record in caplog.records) == 1


async def test_many_episodes_with_delays_failures_and_timeouts_are_all_accounted_for():
    # Of 256: every 8th raises, every 8th from 1 on overruns; the rest learn their own label back.
    async def step(self, states):
        number = int(states["label"])
        await asyncio.sleep(random.random() * 0.005)
        if number % 8 == 0:
            raise RuntimeError("broken")
        if number % 8 == 1:
            await asyncio.sleep(60)
        done = self.steps == 1 + number % 3
        return {"rewards": float(number) if done else 0.0, "done": done, "environment_feedback": states["label"]}

    executor = MultiTurnAgentExecutor(agent(step), timeout_s=5.0)
    engine = ScriptedEngine(lambda call: completion("x"))
    results = await within(60, asyncio.gather(*(play(executor, engine, label=str(i)) for i in range(256))))
    for number, trajectory in enumerate(results):
        if number % 8 < 2:
            assert trajectory.outcome.status is Status.UNGRADED
        else:
            assert trajectory.outcome.reward == float(number)
            assert len(trajectory.segments[0].turns) == 1 + number % 3
    assert sum(executor.failures.counts().values()) == 64


def test_only_agent_classes_are_taken():
    with pytest.raises(TypeError, match="subclass of AgentInstanceBase"):
        MultiTurnAgentExecutor(lambda: None)
