"""deepgym new, deepgym check"""

from pathlib import Path
from typing import Annotated

import tyro

from deepgym.authoring import CheckReport, check_environment, create_environment
from deepgym.cli.errors import EXIT_NO_VERDICT, EXIT_NOT_PASSED
from deepgym.cli.options import Where
from deepgym.exceptions import SandboxError, VerifierError
from deepgym.models import Kind
from deepgym.registry import find_folder, list_environments


def new(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")],
    kind: Kind = "function",
) -> int:
    """Write a small, working environment for you to change.

    Args:
        folder: Where; its last part becomes the environment's name.
        kind: function (called with arguments), program (stdin to stdout), or files (a script in a folder).
    """
    made = create_environment(folder.parent, folder.name, kind)
    print(f"{made}: change task.md, verifier.py, reference.* and wrong/*, then: deepgym check {made}")
    return 0


def check(
    environments: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT ...")] = (),
    where: Annotated[Where, tyro.conf.arg(name="")] = Where(),  # noqa: B008 (frozen)
    scores: bool = False,
) -> int:
    """Check that environments can be trusted as rewards.

    The reference passes, three times and with other seeds; answers that do nothing earn 0; wrong ones stay low.

    Args:
        environments: Names, or paths of folders; default: all.
        where: Which environments there are, and where answers run.
        scores: Print what each answer earned.
    """
    names = environments or list_environments(where.folder)
    folders = [find_folder(Path(name) if "/" in name else name, folders=where.folder) for name in names]
    sound = True
    with where.gym(names) as dg:
        for folder in folders:
            try:
                report = check_environment(dg, folder)
            except (SandboxError, VerifierError) as error:
                print(f"{folder.name}: no verdict: {' '.join(str(error).split())}")
                return EXIT_NO_VERDICT
            print("\n".join(_lines(report, scores)))
            sound = sound and report.ok
    return 0 if sound else EXIT_NOT_PASSED


def _lines(report: CheckReport, scores: bool) -> list[str]:
    lines = [f"{report.name}: {'sound' if report.ok else 'NOT sound'}"]
    lines += [f"  {problem}" for problem in report.problems]
    if scores:
        lines += [f"  {score:.3f}  {answer}" for answer, score in report.scores.items()]
    return lines
