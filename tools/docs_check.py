"""Does everything that README, docs and example scripts tell a reader to type still exist and parse?

    python3 tools/docs_check.py        (or: make docs-check)

For each Markdown file: relative links lead somewhere, Python, JSON and YAML blocks parse, shell blocks are valid shell,
make targets exist. For each shell block and example script: the commands are recorded instead of run, and every
`openrlhf.cli` and `deepgym` command goes through the real command-line parser, and the trainer's also through the rules
between its flags. Exit code 1 with one line per fault.
"""

import ast
import contextlib
import functools
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from deepgym.cli import main as deepgym_cli
from openrlhf.config.errors import ConfigError
from openrlhf.config.evaluate import parse_evaluate
from openrlhf.config.machine import Machine
from openrlhf.config.parse import parse_ppo
from openrlhf.config.resolve import resolve
from openrlhf.config.serve_math_verify import parse_serve_math_verify
from openrlhf.config.serve_rm import parse_serve_rm


def parse_deepgym(argv: list[str]) -> None:
    """ConfigError with what `deepgym` says about a command that it refuses; nothing is run."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            silent = deepgym_cli.commands(lambda command: functools.wraps(command)(lambda *_, **__: 0))
            deepgym_cli.read(silent, argv)
    except SystemExit as error:
        if error.code:
            raise ConfigError([" ".join(said.getvalue().split())]) from error


# What a document cannot have: its reader's own files, and a run folder that is still empty.
_THE_READERS = re.compile(r"no such (file|folder)|is missing|holds files already|holds the checkpoints")


def resolve_ppo(argv: list[str]) -> None:
    """ConfigError with what the trainer would refuse on a CPU, but for files of the reader's."""
    parsed = parse_ppo(argv)
    try:
        resolve(parsed.config, {}, Machine(packages=frozenset({"tensorboard", "wandb"})))
    except ConfigError as error:
        problems = [problem for problem in error.problems if not _THE_READERS.search(problem)]
        if problems:
            raise ConfigError(problems) from error


ROOT = Path(__file__).resolve().parents[1]
PARSERS: dict[str, Callable[[list[str]], object]] = {
    "openrlhf.cli.train_ppo_ray": resolve_ppo,
    "openrlhf.cli.evaluate": parse_evaluate,
    "openrlhf.cli.serve_rm": parse_serve_rm,
    "openrlhf.cli.serve_math_verify": parse_serve_math_verify,
    "deepgym": parse_deepgym,
}
SHELLS = {"bash", "sh", "shell", "console"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SCRIPT = re.compile(r"^((?:\w+=\S+ )*)((?:\./)?(?:examples|tools)/[\w./-]+\.sh)", re.MULTILINE)
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)

# Sourced by bash before a script: python3 and make write down their arguments, `ray job submit ... -- command` stands
# for its command, and nothing else runs, because PATH holds `dirname` alone.
RECORDER = r"""
record() { printf '%s\0' "$@" END-OF-COMMAND >> "$RECORD"; }
python3() { record python3 "$@"; }
python() { record python3 "$@"; }
deepgym() { record python3 -m deepgym "$@"; }
make() { record make "$@"; }
ray() { while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done; [ $# -eq 0 ] || { shift; "$@"; }; }
source() { :; }
command_not_found_handle() { :; }
"""


def recorded_commands(script: str, name: str) -> tuple[list[list[str]], str]:
    """Run shell text with every command recorded instead of run; return (commands, what bash complained about)."""
    script = SCRIPT.sub(r"\1record script \2", script)  # named by a path, they would be found without PATH
    with tempfile.TemporaryDirectory() as folder:
        tools, record, hooks = Path(folder, "bin"), Path(folder, "record"), Path(folder, "hooks.sh")
        tools.mkdir()
        place = Path(folder, "root")  # the repository as it looks from its root, for files that a snippet writes
        place.mkdir()
        for entry in ROOT.iterdir():
            (place / entry.name).symlink_to(entry)
        (tools / "dirname").symlink_to("/usr/bin/dirname")
        record.touch()
        hooks.write_text(RECORDER)
        environment = {"PATH": str(tools), "BASH_ENV": str(hooks), "RECORD": str(record), "HOME": os.environ["HOME"]}
        done = subprocess.run(
            ["/bin/bash", "-c", script, name],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        text = record.read_text()
    commands = [chunk.split("\0")[:-1] for chunk in text.split("END-OF-COMMAND\0") if chunk]
    return commands, done.stderr.strip() if done.returncode else ""


def check_command(words: list[str], targets: set[str]) -> Iterator[str]:
    """Faults of one recorded command."""
    if words[0] == "make":
        yield from (f"make {w}: no such target" for w in words[1:] if w not in targets and "=" not in w)
        return
    module = words[2] if words[1:2] == ["-m"] and len(words) > 2 else None
    if module in PARSERS:
        if {"--help", "-h"} & set(words):
            return
        try:
            PARSERS[module](words[3:])
        except ConfigError as error:
            yield from (f"{module}: {problem}" for problem in error.problems)
    elif module is not None and module.startswith("openrlhf") and not module_exists(module):
        yield f"python3 -m {module}: no such module"
    elif module is None and len(words) > 1 and words[1].endswith(".py") and not (ROOT / words[1]).is_file():
        yield f"python3 {words[1]}: no such file"


def module_exists(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def check_shell(script: str, targets: set[str], name: str = "bash") -> Iterator[str]:
    """Faults of shell text; `name` is what its $0 says."""
    commands, complaint = recorded_commands(script, name)
    if complaint:
        yield f"shell: {complaint}"
    for words in commands:
        yield from check_command(words, targets)
    for path in re.findall(r"(?<![\w./$}])((?:examples|tests|tools|benchmarks|docs)/[\w./-]+)", script):
        if not (ROOT / path.rstrip(".")).exists():
            yield f"{path}: no such file"


def check_block(language: str, text: str, targets: set[str]) -> Iterator[str]:
    """Faults of one fenced block."""
    try:
        if language == "python":
            ast.parse(text)
        elif language == "json":
            json.loads(text)
        elif language == "yaml":
            yaml.safe_load(text)
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        yield f"{language} block: {error}"
    if language in SHELLS:
        yield from check_shell(text, targets)


def check_markdown(path: Path, targets: set[str]) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text):
        yield from check_block(language, block, targets)
    for link in LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:") and not (path.parent / link).exists():
            yield f"link to {link}: no such file"


def main() -> int:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    faults = 0
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    scripts = sorted((ROOT / "examples").rglob("*.sh"))
    for path in sorted(pages):
        for fault in check_markdown(path, targets):
            faults += 1
            print(f"{path.relative_to(ROOT)}: {fault}")
    for path in scripts:
        for fault in check_shell(path.read_text(encoding="utf-8"), targets, str(path)):
            faults += 1
            print(f"{path.relative_to(ROOT)}: {fault}")
    print(f"{len(pages)} pages and {len(scripts)} scripts checked, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
