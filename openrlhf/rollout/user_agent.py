"""The executor of `--train.agent_func_path`: class `AgentExecutor` of a Python file, made without arguments."""

import inspect
from pathlib import Path

from openrlhf.config.disk import expanded
from openrlhf.faults import describe, is_ctrl_c
from openrlhf.reward.user_file import load_module
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.errors import AgentError
from openrlhf.rollout.single_turn import SingleTurnExecutor

CLASS = "AgentExecutor"


def make_executor(agent_func_path: str | None) -> AgentExecutorBase:
    """The executor of a run: single-turn where no agent is named. Raises AgentError as `load_agent` does."""
    return SingleTurnExecutor() if agent_func_path is None else load_agent(agent_func_path)


def load_agent(path: str | Path) -> AgentExecutorBase:
    """Run the file and make its `AgentExecutor`.

    Raises:
        AgentError: no such file; its code raised; no such class, or one of another kind; its constructor raised.
    """
    file = expanded(str(path)).absolute()
    names = load_module(file, kind="agent", failure=AgentError).__dict__
    if CLASS not in names:
        others = sorted(name for name, value in names.items() if inspect.isclass(value) and not name.startswith("_"))
        raise AgentError(f"agent file {file}: defines no class {CLASS}; its classes are {others}")
    kind = names[CLASS]
    if not (inspect.isclass(kind) and issubclass(kind, AgentExecutorBase)):
        raise AgentError(
            f"agent file {file}: {CLASS} must be a subclass of MultiTurnAgentExecutor or AgentExecutorBase "
            f"(openrlhf.utils.agent), not {kind!r}"
        )
    if inspect.isabstract(kind):
        raise AgentError(f"agent file {file}: {CLASS} has no execute()")
    try:
        return kind()  # type: ignore[call-arg]
    except BaseException as error:  # whatever the class raises, SystemExit too, is the file's fault
        if is_ctrl_c(error):
            raise
        raise AgentError(f"agent file {file}: {CLASS}() raised {describe(error, file)}") from error
