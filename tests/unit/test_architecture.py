"""The shape of the code, proven from its imports and sizes: who may import whom, and how long anything may be.

Every import counts, also one inside a function; imports under `if TYPE_CHECKING` do not exist here. The rules are those
of docs/architecture.md.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "openrlhf").rglob("*.py"))

# room -> the rooms it may import, beside itself. `types`, `images`, `faults`, `http_status`, `imports`,
# `prompt_tokens`, `tool_arguments` and `interfaces` are modules; openrlhf/__init__ is `root`.
BASE = {"types", "config", "images", "faults", "http_status", "imports", "prompt_tokens", "tool_arguments"}
LEAVES = {"data", "rollout", "reward", "train", "sync", "env", "models", "track"}
ALLOWED: dict[str, set[str]] = {
    "root": set(),
    "types": set(),
    "images": {"types"},
    "faults": set(),
    "http_status": set(),
    "imports": set(),
    "prompt_tokens": set(),
    "tool_arguments": set(),
    "config": {"types"},
    "interfaces": BASE,
    "rl": BASE,
    **{room: BASE | {"interfaces", "rl"} for room in LEAVES},
    "cluster": BASE | {"interfaces", "rl"} | LEAVES,
    "pipeline": BASE | {"interfaces", "rl"} | LEAVES | {"cluster"},
    "cli": BASE | {"interfaces", "rl"} | LEAVES | {"cluster", "pipeline"},
    "utils": BASE | {"interfaces", "rl"} | LEAVES,  # the agent API under its documented path
}
ALLOWED["rollout"] |= {"env", "reward"}
ALLOWED["train"] |= {"models"}
MORE_FOR_FILES = {"openrlhf/reward/model.py": {"models"}}

# package -> the folders that may import it
DOORS = {
    "ray": ("openrlhf/cluster/",),
    "vllm": ("openrlhf/rollout/vllm/",),
    "deepspeed": ("openrlhf/train/deepspeed/",),
    "deepgym": ("openrlhf/env/code_runner.py",),
    "wandb": ("openrlhf/track/",),
    "tensorboard": ("openrlhf/track/",),
    "matplotlib": ("openrlhf/track/",),
}
# Packages that `import openrlhf.cli.train_ppo_ray` must not load, so that a bad flag is refused at once.
HEAVY = {"torch", "transformers", "datasets", "ray", "vllm", "deepspeed", "tensorboard", "matplotlib"}

MAX_FILE, MAX_FUNCTION, MAX_PIPELINE = 500, 60, 250


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    inside = path.relative_to(ROOT / "openrlhf").parts
    if len(inside) > 1:
        return inside[0]
    return "root" if inside[0] == "__init__.py" else inside[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules_named_by(node: ast.AST, path: Path) -> Iterator[str]:
    """The dotted names that one import statement may load: `from a import b` names both `a` and `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = ("openrlhf", *path.relative_to(ROOT / "openrlhf").parts[: -node.level])
            base = ".".join((*package, *([base] if base else [])))
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def imports_of(path: Path) -> set[str]:
    return {name for node in ast.walk(tree_of(path)) for name in modules_named_by(node, path)}


def rooms_imported_by(path: Path) -> set[str]:
    parts = [name.split(".") for name in imports_of(path)]
    known = set(ALLOWED)
    return {p[1] for p in parts if p[0] == "openrlhf" and len(p) > 1 and p[1] in known} - {room_of(path)}


def test_every_room_is_known():
    assert {room_of(path) for path in MODULES} <= set(ALLOWED)


def test_a_module_imports_only_rooms_below_its_own():
    offences = []
    for path in MODULES:
        allowed = ALLOWED[room_of(path)] | MORE_FOR_FILES.get(name_of(path), set())
        if strangers := rooms_imported_by(path) - allowed:
            offences.append(f"{name_of(path)} imports {sorted(strangers)}; its room may import {sorted(allowed)}")
    assert offences == []


def packages_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def test_a_heavy_package_is_imported_only_behind_its_door():
    named = [(path, package) for path in MODULES for package in sorted(packages_of(path) & set(DOORS))]
    offences = [
        f"{name_of(path)}: {package}" for path, package in named if not name_of(path).startswith(DOORS[package])
    ]
    assert offences == []


def test_rl_needs_torch_and_numpy_only():
    modules = [path for path in MODULES if room_of(path) == "rl"]
    packages = set().union(*map(packages_of, modules)) - set(sys.stdlib_module_names) - {"openrlhf"}
    assert packages == {"torch", "numpy"}


def test_records_and_configuration_need_nothing_heavy():
    modules = [path for path in MODULES if room_of(path) in {"types", "interfaces", "config"}]
    offences = [(name_of(path), heavy) for path in modules if (heavy := loaded_at_import(path) & HEAVY)]
    assert offences == []


def test_package_files_are_empty_or_hold_a_docstring():
    for path in (p for p in MODULES if p.name == "__init__.py"):
        body = tree_of(path).body
        if path.parent.name in {"rl", "config"} and path.parent.parent.name == "openrlhf":
            assert path.read_text() == "", f"{name_of(path)} must be empty"
        elif room_of(path) != "root":
            docstring_only = len(body) <= 1 and all(isinstance(node, ast.Expr) for node in body)
            assert docstring_only, f"{name_of(path)} may hold a docstring only"


def loaded_at_import(start: Path) -> set[str]:
    """Packages that importing this module loads, over all modules of ours that it reaches; function bodies are lazy."""
    packages: set[str] = set()
    seen: set[Path] = set()
    todo = [start]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in eager_imports_of(path):
            packages.add(name.split(".")[0])
            todo += files_of(name)
    return packages


@cache
def eager_imports_of(path: Path) -> frozenset[str]:
    return frozenset(eager_imports(tree_of(path), path))


def eager_imports(node: ast.AST, path: Path) -> Iterator[str]:
    yield from modules_named_by(node, path)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from eager_imports(child, path)


def files_of(name: str) -> list[Path]:
    """The files of ours that `import name` runs: the module, and the package file of every folder above it."""
    parts = name.split(".")
    if parts[0] != "openrlhf":
        return []
    folders = [ROOT.joinpath(*parts[:i], "__init__.py") for i in range(1, len(parts) + 1)]
    return [path for path in (*folders, ROOT.joinpath(*parts).with_suffix(".py")) if path.is_file()]


def test_a_command_loads_nothing_heavy_before_its_flags_are_checked():
    commands = sorted((ROOT / "openrlhf" / "cli").glob("train_*.py"))
    assert commands
    assert [name_of(command) for command in commands if loaded_at_import(command) & HEAVY] == []


def test_files_stay_short():
    limits = {path: MAX_PIPELINE if room_of(path) == "pipeline" else MAX_FILE for path in MODULES}
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert [f"{name_of(path)}: {lengths[path]} lines" for path in MODULES if lengths[path] >= limits[path]] == []


def test_functions_stay_short():
    offences = []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length >= MAX_FUNCTION:
                    offences.append(f"{name_of(path)}: {node.name} has {length} lines")
    assert offences == []


def test_the_checks_themselves_see_an_offence(tmp_path):
    """Each rule on a module that breaks it: a check that sees nothing would pass for ever."""
    offender = ROOT / "openrlhf" / "rl" / "offender.py"  # never written; only its parsed text is needed
    tree = ast.parse("def f():\n    from openrlhf import data\n    from ..train.policy import x\n    import ray.util\n")
    names = {name for node in ast.walk(tree) for name in modules_named_by(node, offender)}
    assert {"openrlhf.data", "openrlhf.train.policy", "ray.util"} <= names
    assert "ray.util" not in set(eager_imports(tree, offender))
    assert "torch" in loaded_at_import(ROOT / "openrlhf" / "rl" / "kl.py")
