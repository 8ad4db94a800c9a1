"""What the run reads: model, prompts and reward are looked for before anything is started."""

import ast
from pathlib import Path
from urllib.parse import urlsplit

from openrlhf.config.check_words import brief
from openrlhf.config.context import context_problems, longrope_problems
from openrlhf.config.disk import exists, expanded, is_file, unusable
from openrlhf.config.draft import Draft
from openrlhf.config.optimiser import has_critic
from openrlhf.config.secret import without_login

_DATA_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet", ".arrow")


def resolve_inputs(draft: Draft) -> None:
    """Check every input and make existing local paths absolute, so that workers elsewhere find them.

    Inside a Ray job they stay as given: each node runs in its own copy of the working directory.
    """
    _agent(draft)
    _models(draft)
    _dataset(draft, "data.prompt_dataset", draft.config.data.prompt_dataset, draft.config.data.prompt_probs)
    _dataset(draft, "eval.dataset", draft.config.eval.dataset, None)
    _reward(draft)


def _local(draft: Draft, path: str) -> Path:
    return draft.root / expanded(path)


def _stands_for_a_path(name: str) -> bool:
    """Whether a name can only be a local path: a hub name has at most one slash, and no dot or ~ before it."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or unusable(name) is not None


def _absolute(draft: Draft, name: str) -> str:
    return name if draft.ray_job or not exists(_local(draft, name)) else str(_local(draft, name).resolve())


def _member(draft: Draft, name: str) -> str:
    """`_absolute` inside a comma list: relative where a comma in the working directory's name would cut it."""
    absolute = _absolute(draft, name)
    return name if "," in absolute else absolute


def _missing(name: str, what: str) -> str:
    """`NAME: no such WHAT`, and why it cannot be where the name itself is the reason."""
    reason = unusable(name)
    return f"{brief(name) or repr(name)}: no such {what}" + (f", {reason}" if reason else "")


def _models(draft: Draft) -> None:
    _reward_models(draft)
    actor = draft.config.actor.model_name_or_path
    if actor is None:
        draft.problem("--actor.model_name_or_path is missing: the Hugging Face name or folder of the model to train")
        return
    if _model_exists(draft, "actor.model_name_or_path", actor):
        draft.set("actor.model_name_or_path", _absolute(draft, actor))
    if has_critic(draft.config):
        _critic(draft)
    if draft.config.algo.kl.init_coef == 0:
        return
    reference = draft.config.ref.model_name_or_path
    if reference is None:
        draft.set("ref.model_name_or_path", draft.config.actor.model_name_or_path)
    elif _model_exists(draft, "ref.model_name_or_path", reference):
        draft.set("ref.model_name_or_path", _absolute(draft, reference))


def _reward_models(draft: Draft) -> None:
    flag = "reward.model_name_or_path"
    for name in draft.config.reward.models:
        _model_exists(draft, flag, name)
    if draft.config.reward.models:
        draft.set(flag, ",".join(_member(draft, name) for name in draft.config.reward.models))


def _critic(draft: Draft) -> None:
    """A critic starts from the first reward model, which knows the task's scale, or from the policy."""
    critic = draft.config.critic.model_name_or_path
    if critic is None:
        first = next(iter(draft.config.reward.models), draft.config.actor.model_name_or_path)
        draft.set("critic.model_name_or_path", first)
    elif _model_exists(draft, "critic.model_name_or_path", critic):
        draft.set("critic.model_name_or_path", _absolute(draft, critic))


def _model_exists(draft: Draft, flag: str, name: str) -> bool:
    folder = _local(draft, name)
    if not exists(folder):
        if _stands_for_a_path(name):
            draft.problem(f"--{flag} {_missing(name, 'folder')}")
        return False
    if not is_file(folder / "config.json"):
        draft.problem(f"--{flag} {name}: not a Hugging Face model, it holds no config.json")
        return False
    file, max_len = folder / "config.json", draft.config.data.max_len
    draft.problems += [*context_problems(flag, name, file, max_len), *longrope_problems(name, file, max_len)]
    return True


def _dataset(draft: Draft, flag: str, spec: str | None, probs: str | None) -> None:
    if spec is None:
        if flag == "data.prompt_dataset":
            draft.problem(f"--{flag} is missing: a file, folder or hub name of the prompts")
        return
    entries = [spec] if exists(_local(draft, spec)) else [part.strip() for part in spec.split(",")]
    if len(entries) == 1 and exists(_local(draft, spec)):
        draft.set(flag, _absolute(draft, spec))  # taken whole wherever it is read, even with a comma in it
    else:
        draft.set(flag, ",".join(_entry(draft, flag, entry) for entry in entries))
    if probs is None:
        return
    if len(entries) == 1:
        draft.warn(f"--data.prompt_probs {probs} has no effect: --data.prompt_dataset names one dataset")
    else:
        _check_probs(draft, probs, len(entries))


def _entry(draft: Draft, flag: str, entry: str) -> str:
    """One dataset of the comma list, `path`, `path@dir` or a hub name, checked; absolute where it lies on disk."""
    if exists(_local(draft, entry)):
        return _member(draft, entry)
    name, at, inner = entry.rpartition("@") if "@" in entry.strip("@") else (entry, "", "")
    if exists(_local(draft, name)):
        if not exists(_local(draft, name) / inner):
            draft.problem(f"--{flag} {entry}: {name} holds no {inner}")
    elif not name or _stands_for_a_path(name) or name.endswith(_DATA_SUFFIXES):
        draft.problem(f"--{flag} {_missing(entry, 'file or folder')}")
    return _member(draft, name) + at + inner


def _check_probs(draft: Draft, probs: str, datasets: int) -> None:
    try:
        numbers = [float(part) for part in probs.split(",")]
    except ValueError:
        draft.problem(f"--data.prompt_probs {probs}: numbers separated by commas, like 0.3,0.7")
        return
    if len(numbers) != datasets:
        draft.problem(f"--data.prompt_probs {probs}: {len(numbers)} probabilities for {datasets} datasets")
    elif not all(number > 0 for number in numbers) or abs(sum(numbers) - 1) > 1e-6:
        draft.problem(f"--data.prompt_probs {probs}: each must be over 0, and all together 1")


def _agent(draft: Draft) -> None:
    """An agent gives the rewards of its episodes, so every other source is switched off."""
    agent, reward = draft.config.train.agent_func_path, draft.config.reward
    if agent is None:
        return
    for name, value in (("remote_url", reward.remote_url), ("model_name_or_path", reward.model_name_or_path)):
        if value is not None:
            draft.warn(f"--reward.{name} {_address(value)} is switched off: --train.agent_func_path gives the rewards")
            draft.set(f"reward.{name}", None)
    if draft.config.train.full_determinism_enable:
        draft.warn(
            "--train.full_determinism_enable: each sample has its own seeds, but the agent decides when a request "
            "reaches an engine, so batches and last digits may differ between runs"
        )
    if agent.endswith(".py"):
        _python_file(draft, "train.agent_func_path", agent, "AgentExecutor", "class AgentExecutor")
    else:
        draft.problem(f"--train.agent_func_path {brief(agent)}: not a .py file")


def _reward(draft: Draft) -> None:
    reward = draft.config.reward
    if draft.config.train.agent_func_path is not None:
        return
    url = reward.remote_url or ""
    sources = (url,) if url and is_file(_local(draft, url)) else reward.sources
    if not sources:  # prompts may name tasks that grade them; that shows when they are read
        return
    if reward.models:
        draft.problem(
            f"--reward.remote_url {_address(url)}: --reward.model_name_or_path gives rewards too; leave one of them out"
        )
    if all(source.startswith(("http://", "https://")) for source in sources):
        for source in sources:
            _check_address(draft, source)
        return
    if len(sources) > 1:
        draft.problem(f"--reward.remote_url {_address(url)}: several sources must all be http addresses")
    elif not sources[0].endswith(".py"):
        draft.problem(f"--reward.remote_url {_address(url)}: neither a .py file nor an http:// or https:// address")
    else:
        wanted = "reward_func(queries, prompts, labels)"
        _python_file(draft, "reward.remote_url", sources[0], "reward_func", wanted)


def _check_address(draft: Draft, source: str) -> None:
    """An address must name a host, and a port where it has a colon after it; whether anyone listens shows later."""
    try:
        parts = urlsplit(source)
        reason = None if parts.hostname else "names no host"
        if parts.port == 0:
            reason = "port 0 is none"
    except ValueError as error:
        reason = str(error) if "@" not in source else "is no valid address"
    if reason is None and any(character.isspace() or character in "<>\\^`{|}" for character in source):
        reason = "an address holds no blanks and no <, >, {, }, |, \\, ^, `"
    if reason:
        draft.problem(f"--reward.remote_url {_address(source)}: {reason}; write it like http://host:5000/get_reward")


def _address(url: str) -> str:
    return brief(without_login(url))


def _python_file(draft: Draft, flag: str, name: str, wanted: str, shown: str) -> None:
    """A file that must define `wanted`, called `shown` in messages. It is read, not run."""
    file = _local(draft, name)
    if not is_file(file):
        draft.problem(f"--{flag} {_missing(name, 'file')}")
        return
    try:
        tree = ast.parse(file.read_bytes())  # bytes: Python finds the encoding itself
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        draft.problem(f"--{flag} {name}: cannot be read as Python: {reason}")
        return
    if not _defines(tree, wanted):
        draft.problem(f"--{flag} {name}: defines no {shown}")
    draft.set(flag, _absolute(draft, name))


def _defines(tree: ast.Module, wanted: str) -> bool:
    """Whether a module's text binds a name; a star import might. The reward room loads the file and knows for sure."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound = name
            case ast.Name(id=name, ctx=ast.Store()):
                bound = name
            case ast.alias(name=name, asname=asname):
                bound = wanted if name == "*" else asname or name
            case _:
                continue
        if bound == wanted:
            return True
    return False
