"""An agent written with a framework that knows nothing of this project: OpenAI's Agents SDK, two tools, one session."""

import agents

from openrlhf.rollout.openai_server.executor import OpenAIServerAgentExecutor
from tests.agent_fakes import ChatTokenizer, play, quick_client, within
from tests.fakes import ScriptedEngine, completion


@agents.function_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@agents.function_tool
def double(a: int) -> str:
    """Double a number."""
    return str(2 * a)


class AgentExecutor(OpenAIServerAgentExecutor):
    async def run_agent(self, *, prompt, label, base_url, session_id, images=None, **kwargs):
        agents.set_tracing_disabled(True)
        async with quick_client(base_url) as client:
            model = agents.OpenAIChatCompletionsModel(model="policy", openai_client=client)
            agent = agents.Agent(name="clerk", instructions="Use your tools.", model=model, tools=[add, double])
            result = await agents.Runner.run(agent, prompt, max_turns=5)
        return {"reward": float(result.final_output == label)}


async def test_an_agents_sdk_episode_with_two_tools_is_one_exact_trajectory():
    def script(call):
        text = ChatTokenizer().decode(call.prompt_token_ids)
        if "<tool>14<eos>" in text:
            return completion("14")
        name, arguments = ("double", '{"a": 7}') if "<tool>7<eos>" in text else ("add", '{"a": 3, "b": 4}')
        return completion(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>')

    executor, engine = AgentExecutor(), ScriptedEngine(script)
    options = {"tokenizer": ChatTokenizer(), "max_tokens": 200, "max_length": 2000}
    trajectory = await within(30, play(executor, engine, prompt="2 (3 + 4)", label="14", **options))
    await executor.close()
    assert trajectory.outcome.reward == 1.0
    (segment,) = trajectory.segments
    assert len(segment.turns) == len(engine.calls) == 3
    for call, turn in zip(engine.calls, segment.turns, strict=True):
        assert call.prompt_token_ids == segment.token_ids.tolist()[: turn.start]
    assert (
        ChatTokenizer().decode(engine.calls[0].prompt_token_ids).startswith("[add][double]<system>Use your tools.<eos>")
    )
