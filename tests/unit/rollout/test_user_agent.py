import textwrap
from pathlib import Path

import pytest

from openrlhf.rollout.errors import AgentError
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.rollout.user_agent import load_agent, make_executor
from tests.agent_fakes import play
from tests.fakes import FakeTokenizer, ScriptedEngine, completion

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "python" / "agent_func.py"
IMPORT = "from openrlhf.utils.agent import AgentExecutorBase, AgentInstanceBase, MultiTurnAgentExecutor\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "agent_func.py"
    path.write_text(IMPORT + textwrap.dedent(text))
    return path


async def test_the_example_runs_an_episode():
    executor = load_agent(EXAMPLE)
    engine = ScriptedEngine(lambda call: completion("4" if "try again" in text(call) else "5"))
    trajectory = await play(executor, engine, prompt="2 + 2 = ", label="4", max_length=400)
    assert len(engine.calls) == 2
    assert trajectory.outcome.reward == 1.0
    assert trajectory.outcome.extra_logs["num_turns"] == 2.0
    engine = ScriptedEngine(lambda call: completion("5"))
    trajectory = await play(executor, engine, prompt="2 + 2 = ", label="4", max_length=400)
    assert (len(engine.calls), trajectory.outcome.reward, trajectory.truncated) == (3, 0.0, False)


async def test_the_documented_return_contract_in_tensors(tmp_path):
    """Everything that the reference names: tensors of no dimension, parameters handed back, logs of every step,
    feedback beside `done`."""
    path = written(
        tmp_path,
        """
        import torch

        class AgentInstance(AgentInstanceBase):
            def __init__(self, *args, **kwargs):
                self.count = 0

            async def reset(self, states: dict, **kwargs) -> dict:
                return {"observation": states["observation"]}

            async def step(self, states: dict, **kwargs) -> dict:
                self.count += 1
                reward = torch.tensor(float(self.count == 3))
                return {
                    "rewards": reward,
                    "scores": reward,
                    "environment_feedback": " Human: no</s> Assistant: ",
                    "done": self.count >= 3,
                    "sampling_params": states.get("sampling_params"),
                    "extra_logs": {"step": self.count},
                }

        class AgentExecutor(MultiTurnAgentExecutor):
            def __init__(self):
                super().__init__(AgentInstance)
        """,
    )
    engine = ScriptedEngine(lambda call: completion("a"))
    trajectory = await play(load_agent(path), engine, prompt="Q: ", label="", max_length=400)
    outcome, (segment,) = trajectory.outcome, trajectory.segments
    assert (outcome.reward, outcome.score, outcome.extra_logs) == (1.0, 1.0, {"num_turns": 3.0, "step": 6.0})
    said = FakeTokenizer().decode(segment.token_ids.tolist())
    assert said == "Q: a<eos> Human: no</s> Assistant: a<eos> Human: no</s> Assistant: a<eos>"


def text(call) -> str:
    return FakeTokenizer().decode(call.prompt_token_ids)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "x = 1",
            r"defines no class AgentExecutor; its classes are \['AgentExecutorBase', 'AgentInstanceBase', 'Multi",
        ),
        ("AgentExecutor = 3", "AgentExecutor must be a subclass of MultiTurnAgentExecutor or AgentExecutorBase"),
        ("class AgentExecutor: pass", "must be a subclass of"),
        ("class AgentExecutor(AgentExecutorBase): pass", "AgentExecutor has no execute()"),
        (
            "class AgentExecutor(MultiTurnAgentExecutor):\n    def __init__(self):\n        super().__init__(int)",
            r"AgentExecutor\(\) raised TypeError: MultiTurnAgentExecutor needs a subclass of AgentInstanceBase, not",
        ),
        (
            "class AgentExecutor(MultiTurnAgentExecutor): pass",
            r"AgentExecutor\(\) raised TypeError: .*missing 1 required",
        ),
        ("1 / 0", r"import failed: ZeroDivisionError: division by zero at .*agent_func.py:2"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path, code, message):
    path = written(tmp_path, code)
    with pytest.raises(AgentError, match=message) as failure:
        load_agent(path)
    assert str(failure.value).startswith(f"agent file {path}: ")
    assert "\n" not in str(failure.value)


def test_no_file_is_one_line(tmp_path):
    with pytest.raises(AgentError, match=r"agent file .*nothing\.py: does not exist"):
        load_agent(tmp_path / "nothing.py")


def test_without_an_agent_samples_have_one_turn():
    assert type(make_executor(None)) is SingleTurnExecutor


async def test_an_executor_of_its_own(tmp_path):
    path = written(
        tmp_path,
        """
        from openrlhf.utils.agent import EpisodeTokens, RewardOutcome, Trajectory

        class AgentExecutor(AgentExecutorBase):
            async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
                tokens = EpisodeTokens(hf_tokenizer(prompt, add_special_tokens=False)["input_ids"])
                completion = await llm_engine.generate(tokens.ids, sampling_params, images)
                tokens.act(completion)
                return Trajectory((tokens.segment(),), completion.finish_reason == "length", RewardOutcome(0.5, 0.5))
        """,
    )
    trajectory = await play(load_agent(path), ScriptedEngine(lambda call: completion("x")))
    assert trajectory.outcome.reward == 0.5
    assert trajectory.segments[0].num_actions == 2
