"""An environment as a folder.

env.toml         title, kind, language, entry, difficulty, domain, tags, answer, [limits], [groups]
task.md          what the model is asked; the examples and the form of the answer are added to it
verifier.py      cases(rng), judge(case, outcome), examples(): trusted code
files/           what the answer finds in its working directory (optional)
reference.*      an answer that scores 1.0
wrong/*          answers that do not pass; `constant*`, `empty*` and `stub*` earn at most 0.1, the others below 0.5
wrong/edits.toml more of them, each the reference with one place changed (optional)
"""

import hashlib
import importlib.util
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from deepgym.cases import faults_of
from deepgym.exceptions import VERIFIER_FAULTS, EnvironmentDefinitionError
from deepgym.models import AnswerForm, Case, Difficulty, Environment, Kind, Language, Verifier
from deepgym.sandbox.base import Limits, check_relative_path
from deepgym.tasktext import render_task

MANIFEST = "env.toml"
EDITS = "wrong/edits.toml"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


class Manifest(BaseModel):
    """env.toml, checked."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str
    kind: Kind
    language: Language = "python"
    entry: str
    difficulty: Difficulty
    domain: str
    tags: list[str] = []
    answer: AnswerForm = "single"
    limits: dict[str, float | int] = {}
    groups: dict[str, float] = {"main": 1.0}


class Edit(BaseModel):
    """One entry of wrong/edits.toml: the reference with `replace` in the place of `find`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    find: str
    replace: str

    def apply(self, reference: str) -> str:
        """The wrong answer. Raises ValueError unless `find` stands once in the reference and the edit changes it."""
        start = reference.find(self.find)
        if start < 0:
            raise ValueError("find is not in the reference")
        if reference.rfind(self.find) != start:
            raise ValueError("find is in the reference more than once; add what stands around it")
        if self.replace == self.find:
            raise ValueError("replace is the same as find, so the answer would be the reference")
        return reference[:start] + self.replace + reference[start + len(self.find) :]


class Edits(RootModel[dict[str, Edit]]):
    """wrong/edits.toml, checked: edits by the name of the answer."""


Checked = TypeVar("Checked", Manifest, Edits)


class EnvironmentFolder:
    """Reads one folder; nothing is cached, so an author sees each edit at once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            self.name = self.path.resolve().name
            found = (self.path / MANIFEST).is_file()
        except (
            OSError,
            RuntimeError,
            ValueError,
        ) as exc:  # a loop of links, a name that none can have
            raise EnvironmentDefinitionError(f"{self.path}: cannot be read: {exc}") from exc
        if not found:
            raise EnvironmentDefinitionError(f"{self.path}: not an environment folder, it has no {MANIFEST}")
        if not NAME.match(self.name):
            raise EnvironmentDefinitionError(f"{self.path}: a folder name is lower case letters, digits and '_'")

    def environment(self, seed: int = 0) -> Environment:
        """The record. Raises EnvironmentDefinitionError naming the file and the field that are wrong."""
        manifest = self._checked(MANIFEST, Manifest)
        verifier = self._verifier()
        examples = self._examples(verifier)
        try:
            return Environment(
                name=self.name,
                title=manifest.title,
                task=self._task(manifest, examples),
                kind=manifest.kind,
                language=manifest.language,
                entry=manifest.entry,
                verifier=verifier,
                difficulty=manifest.difficulty,
                domain=manifest.domain,
                tags=tuple(manifest.tags),
                limits=Limits(**_checked_limits(manifest.limits)),
                groups=manifest.groups,
                files=self._files(),
                answer=manifest.answer,
                seed=seed,
            )
        except (ValueError, TypeError) as exc:
            raise EnvironmentDefinitionError(f"{self.path / MANIFEST}: {exc}") from exc

    def reference(self) -> str:
        """The reference answer."""
        found = sorted(self.path.glob("reference.*"))
        if len(found) != 1:
            raise EnvironmentDefinitionError(f"{self.path}: needs one reference.* file, has {len(found)}")
        return self._read(found[0].name)

    def wrong(self) -> dict[str, str]:
        """Answers that must not pass, by file name without suffix, or with it where two share the rest: for all
        where one's name is another's rest.

        Every file counts but hidden ones and `__pycache__`; the entries of edits.toml follow, by their names. Raises
        EnvironmentDefinitionError for what is no text file, a folder for example: it would go unchecked; and for an
        entry that makes no answer of its own.
        """
        paths = sorted((self.path / "wrong").glob("*"))
        paths = [path for path in paths if not path.name.startswith(".") and path.name != "__pycache__"]
        edits = self.path / EDITS
        edited = edits in paths
        paths = [path for path in paths if path != edits]
        stems = Counter(path.stem for path in paths)
        labels = [path.stem if stems[path.stem] == 1 else path.name for path in paths]
        if len(set(labels)) < len(labels):  # of x.py, x.sh and x.py.txt
            labels = [path.name for path in paths]
        answers = {label: self._read(f"wrong/{path.name}") for label, path in zip(labels, paths, strict=True)}
        return answers | (self._edited(paths) if edited else {})

    def _edited(self, files: list[Path]) -> dict[str, str]:
        """The answers of edits.toml by name; `files` are the other answers, whose names no entry may bear."""
        taken = {name: path.name for path in files for name in (path.stem, path.name)}
        reference, answers = self.reference(), {}
        for name, edit in self._checked(EDITS, Edits).root.items():
            if name in taken:
                raise EnvironmentDefinitionError(
                    f"{self.path / EDITS}: {name}: wrong/{taken[name]} has this name too; rename one"
                )
            try:
                answers[name] = edit.apply(reference)
            except ValueError as exc:
                raise EnvironmentDefinitionError(f"{self.path / EDITS}: {name}: {exc}") from exc
        return answers

    def _checked(self, name: str, model: type[Checked]) -> Checked:
        """The TOML file `name` as `model`. Raises EnvironmentDefinitionError naming the file and the key."""
        try:
            return model.model_validate(tomllib.loads(self._read(name)))
        except tomllib.TOMLDecodeError as exc:
            raise EnvironmentDefinitionError(f"{self.path / name}: {exc}") from exc
        except ValidationError as exc:
            problems = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors())
            raise EnvironmentDefinitionError(f"{self.path / name}: {problems}") from exc

    def _verifier(self) -> Verifier:
        path = self.path / "verifier.py"
        members = vars(_load_module(path, self._read("verifier.py")))
        missing = [name for name in ("cases", "judge", "examples") if not callable(members.get(name))]
        if missing:
            raise EnvironmentDefinitionError(f"{path}: defines no function {', '.join(missing)}")
        return Verifier(cases=members["cases"], judge=members["judge"], examples=members["examples"])

    def _examples(self, verifier: Verifier) -> tuple[Case, ...]:
        path = self.path / "verifier.py"
        try:
            examples = tuple(verifier.examples())
        except VERIFIER_FAULTS as exc:
            raise EnvironmentDefinitionError(f"{path}: examples(): {type(exc).__name__}: {exc}") from exc
        if faults := faults_of(examples):
            raise EnvironmentDefinitionError(f"{path}: examples(): {faults}")
        return examples

    def _task(self, manifest: Manifest, examples: tuple[Case, ...]) -> str:
        text = self._read("task.md")
        try:
            return render_task(text, manifest.kind, manifest.entry, manifest.answer, examples)
        except (ValueError, TypeError) as exc:  # what is expected is no JSON data
            raise EnvironmentDefinitionError(f"{self.path / 'verifier.py'}: examples(): {exc}") from exc

    def _files(self) -> dict[str, bytes]:
        root = self.path / "files"
        paths = [path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
        return {check_relative_path(path.relative_to(root).as_posix()): path.read_bytes() for path in paths}

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise EnvironmentDefinitionError(f"{self.path / name}: cannot be read: {exc}") from exc


def _checked_limits(limits: dict[str, float | int]) -> dict[str, Any]:
    known = Limits.__dataclass_fields__
    unknown = sorted(set(limits) - set(known))
    if unknown:
        raise ValueError(f"limits.{unknown[0]} does not exist; limits are {', '.join(known)}")
    return dict(limits)


def _load_module(path: Path, source: str) -> ModuleType:
    """Execute a verifier's file under a module name of its own; two folders of one name do not meet.

    Dataclasses and pickle look a class's module up in sys.modules. A later load of the same folder takes the place.
    """
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_loader(f"deepgym_verifier_{path.parent.name}_{digest}", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    earlier = sys.modules.get(spec.name)
    sys.modules[spec.name] = module
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except VERIFIER_FAULTS as exc:
        if earlier is None:
            del sys.modules[spec.name]
        else:
            sys.modules[spec.name] = earlier
        raise EnvironmentDefinitionError(f"{path}: {type(exc).__name__}: {exc}") from exc
    return module
