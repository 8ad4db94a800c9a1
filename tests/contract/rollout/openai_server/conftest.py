"""A running server on a scripted engine, with the official client inside a session of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from openai import AsyncOpenAI

from openrlhf.rollout.openai_server.server import AgentServer
from openrlhf.rollout.openai_server.session import Session
from openrlhf.types import Completion, SamplingParams
from tests.agent_fakes import ChatTokenizer, quick_client
from tests.fakes import EngineCall, ScriptedEngine

Script = Callable[[EngineCall], Completion | Exception]


@dataclass
class Talk:
    server: AgentServer
    engine: ScriptedEngine
    session: Session
    client: AsyncOpenAI

    async def say(self, messages, **options):
        return await self.client.chat.completions.create(model="policy", messages=messages, **options)

    def prompts(self) -> list[str]:
        """What the engine was given, as text."""
        return [ChatTokenizer().decode(call.prompt_token_ids) for call in self.engine.calls]


@pytest.fixture
def talk() -> Callable[..., AsyncIterator[Talk]]:
    """`async with talk(script) as t`: one server, one open session with 50 tokens a turn and 400 in all."""

    @asynccontextmanager
    async def run(script: Script, *, tokenizer: ChatTokenizer | None = None, max_length: int = 400):
        engine = ScriptedEngine(script)
        server = AgentServer(engine, tokenizer or ChatTokenizer(), max_length)
        await server.start()
        session = Session(SamplingParams(max_tokens=50, temperature=0.7), max_length)
        server.sessions.open("s", session)
        client = quick_client(server.base_url("s"))
        try:
            async with client:
                yield Talk(server, engine, session, client)
        finally:
            await server.close()

    return run
