"""Code blocks of a policy, run wherever `--env.code.*` says: bounded in number for the whole process, tried again.

tool = CodeTool(env)
result = await tool.run("print(6 * 7)")      # CodeResult("42", error=False)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from openrlhf.config.env import EnvConfig
from openrlhf.env.code_result import CodeResult, not_run
from openrlhf.env.code_runner import CodeRunner, RunnerDown, SandboxRunner
from openrlhf.env.code_server import ServerRunner

logger = logging.getLogger(__name__)
MAX_PAUSE_S = 300.0


class CodeTool:
    """One per process: `env.code.max_concurrent` programs at once, whoever asks."""

    def __init__(
        self,
        env: EnvConfig,
        runner: CodeRunner | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`runner`, `pause`: for tests. Raises EnvError where this machine has no sandbox and no server is named."""
        code = env.code
        if runner is None:
            runner = ServerRunner(env) if env.has_code_server else _sandbox(env)
        self._runner = runner
        self._places = asyncio.Semaphore(code.max_concurrent)
        self._tries = code.max_retries
        self._merge = code.merge_rounds
        self._pause = pause
        self._down = 0

    async def run(self, code: str, earlier: Sequence[str] = ()) -> CodeResult:
        """Run a program; `earlier`: programs of the same episode that had no error, see `env.code.merge_rounds`.

        Where no try reaches a runner the result says so (`CodeResult.down`): the episode cannot be graded then.
        """
        program = "\n".join([*earlier, code]) if self._merge else code
        async with self._places:
            for attempt in range(self._tries):
                if attempt:
                    await self._pause(min(2.0 ** (attempt - 1), MAX_PAUSE_S))
                try:
                    return await self._runner.run(program)
                except RunnerDown as error:
                    reason = str(error)
        self._down += 1
        if self._down == 1:
            logger.warning("a code block could not be run: %s (further ones are only counted)", reason)
        return not_run(reason)

    async def close(self) -> None:
        await self._runner.close()


def _sandbox(env: EnvConfig) -> CodeRunner:
    code = env.code
    return SandboxRunner(code.sandbox, code.max_concurrent, code.run_timeout)
