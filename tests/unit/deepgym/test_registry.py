"""Finding environments, reading folders, writing and checking new ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deepgym import list_environments, load_environment
from deepgym.authoring import create_environment
from deepgym.exceptions import EnvironmentDefinitionError, UnknownEnvironmentError
from deepgym.folder import EnvironmentFolder
from deepgym.grading import hidden_cases


@pytest.fixture
def folder(tmp_path) -> Path:
    return create_environment(tmp_path, "mine", "function")


def test_a_built_in_environment_is_loaded_by_name():
    env = load_environment("coin_change")
    assert (env.name, env.kind, env.entry, env.language) == ("coin_change", "function", "coin_change", "python")
    assert "coin_change([1, 2, 5], 11) -> 3" in env.task
    assert load_environment("coin_change") is env
    assert load_environment("coin_change", seed=3) == env.with_seed(3)


def test_an_unknown_name_lists_what_exists():
    with pytest.raises(UnknownEnvironmentError, match="no environment 'coin_chnge'") as info:
        load_environment("coin_chnge")
    assert "Did you mean 'coin_change'?" in str(info.value)
    assert all(name in str(info.value) for name in list_environments())


def test_user_folders_are_one_environment_or_many(folder):
    assert "mine" in list_environments([folder.parent])
    assert list_environments([folder]) == tuple(sorted([*list_environments(), "mine"]))
    assert load_environment("mine", folders=[folder.parent]).title == "Mine"
    assert load_environment(folder).entry == "total"
    assert load_environment(str(folder), seed=5).seed == 5
    assert "mine" not in list_environments()


def test_one_name_is_one_environment(tmp_path, folder):
    other = create_environment(tmp_path / "other", "coin_change")
    with pytest.raises(EnvironmentDefinitionError, match="two environments are called 'coin_change'"):
        load_environment("mine", folders=[folder, other])
    with pytest.raises(EnvironmentDefinitionError, match="no such folder"):
        list_environments([tmp_path / "absent"])


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("env.toml", 'kind = "function"', 'kind = "essay"', "env.toml: kind: Input should be"),
        ("env.toml", 'title = "Mine"', "", "title: Field required"),
        ("env.toml", "tags = []", "tags = []\ncolour = 1", "colour: Extra inputs"),
        ("env.toml", "tags = []", "tags = [", "env.toml: "),
        ("env.toml", "cpu_seconds = 2.0", "cpu = 2.0", "limits.cpu does not exist; limits are cpu_seconds"),
        ("env.toml", "cpu_seconds = 2.0", "cpu_seconds = 0.0", "Limits.cpu_seconds is 0.0"),
        (
            "env.toml",
            "cpu_seconds = 2.0",
            "cpu_seconds = 1e300",
            r"cpu_seconds is 1e\+300; .* above 0 and at most 86,400",
        ),
        ("env.toml", "cpu_seconds = 2.0", "wall_seconds = nan", "wall_seconds is nan; it must be above 0"),
        # 1 TiB = 2**40 = 1,099,511,627,776 bytes
        ("env.toml", "cpu_seconds = 2.0", "memory_bytes = 1099511627777", "memory_bytes .* at most 1,099,511,627,776"),
        ("env.toml", "cpu_seconds = 2.0", "open_files = 65537", "open_files is 65537; .* at most 65,536"),
        ("env.toml", "cpu_seconds = 2.0", "memory_bytes = 2.56e8", "memory_bytes is 256000000.0; it must be a whole"),
        ("env.toml", "small = 0.4", "small = 0.5", "sum to 1"),
        ("env.toml", 'language = "python"', 'language = "shell"', "Python only"),
        ("env.toml", 'entry = "total"', 'entry = "a.b"', "env.toml: mine: entry 'a.b' cannot be a function's name"),
        ("env.toml", 'entry = "total"', 'entry = ""', "entry '' cannot be a function's name"),
        ("verifier.py", "args=(numbers,)", "args=(set(numbers),)", "verifier.py: examples..: case 'example 1': .* set"),
        ("verifier.py", "total(numbers), args", "{1}, args", "verifier.py: examples..: Object of type set"),
        ("verifier.py", '[case("example 1"', '[5, case("example 1"', "examples..: a case is of type int, not Case"),
        ("verifier.py", "def judge(", "def jugde(", "defines no function judge"),
        ("verifier.py", "import random", "import randomness", "ModuleNotFoundError"),
        ("verifier.py", "import random", "raise SystemExit(0)", "verifier.py: SystemExit: 0"),
        ("verifier.py", "return sum(numbers)", "return summ(numbers)", "examples"),
        ("verifier.py", "return sum(numbers)", "raise SystemExit(0)", "examples..: SystemExit: 0"),
    ],
)
def test_a_wrong_folder_names_the_file_and_the_field(folder, file, old, new, complaint):
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(EnvironmentDefinitionError, match=complaint):
        load_environment(folder)


@pytest.mark.parametrize("entry", ["../x.py", "", "/x.py"])
def test_a_program_stays_in_its_folder(tmp_path, entry):
    folder = create_environment(tmp_path, "mine", "program")
    path = folder / "env.toml"
    path.write_text(path.read_text().replace("solution.py", entry))
    with pytest.raises(
        EnvironmentDefinitionError, match=f"env.toml: mine: entry: '{entry}' is not a plain relative path"
    ):
        load_environment(folder)


def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    loop, too_long = tmp_path / "loop", tmp_path / ("a" * 300)
    loop.symlink_to(loop)
    for path in (loop, too_long):
        with pytest.raises(EnvironmentDefinitionError, match=f"{path.name}: cannot be read"):
            EnvironmentFolder(path)
        with pytest.raises(EnvironmentDefinitionError, match=f"{path.name}: (no such folder|cannot be read)"):
            list_environments([path])


@pytest.mark.parametrize("name", ["./a\0b", "./\ud800", "./" + "a" * 5000, Path("a\0b")])
def test_a_path_that_no_file_can_have_is_refused(name):
    with pytest.raises(EnvironmentDefinitionError, match="cannot be read"):
        load_environment(name)
    with pytest.raises(EnvironmentDefinitionError, match=r"cannot be read|no such folder"):
        load_environment("mine", folders=[name])


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "\ud800", ""])
def test_a_name_that_no_environment_can_have_is_unknown(name):
    with pytest.raises(UnknownEnvironmentError, match="no environment"):
        load_environment(name)


def test_every_file_in_wrong_counts(folder):
    for name in ("off_by_one.PY", "right", "constant.tar.gz", ".hidden.py", "__pycache__/x.pyc"):
        path = folder / "wrong" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    wrong = EnvironmentFolder(folder).wrong()
    # Two files share the name off_by_one, so these keep their suffix.
    assert list(wrong) == ["constant.tar", "off_by_one.PY", "off_by_one.py", "right"]
    assert wrong["off_by_one.PY"] == "off_by_one.PY"
    (folder / "wrong" / "more").mkdir()
    with pytest.raises(EnvironmentDefinitionError, match="wrong/more: cannot be read"):
        EnvironmentFolder(folder).wrong()


def test_no_file_in_wrong_hides_another(folder):
    """x.py and x.sh keep their suffix, so "x.py" would be x.py.txt without its own: then all keep theirs."""
    names = ["off_by_one.py", "x.py", "x.py.txt", "x.sh"]
    for name in names:
        (folder / "wrong" / name).write_text(name)
    assert EnvironmentFolder(folder).wrong() == {name: name for name in names}


def test_an_edit_of_the_reference_is_a_wrong_answer(folder):
    first = '[first_number_only]\nfind = "sum(numbers)"\nreplace = "sum(numbers[:1])"\n'
    none = "[none]\nfind = '''\n    return sum(numbers)'''\nreplace = '    return'\n"
    (folder / "wrong" / "edits.toml").write_text(first + none)
    wrong = EnvironmentFolder(folder).wrong()
    # The reference is "def total(numbers):\n    return sum(numbers)\n".
    assert wrong["first_number_only"] == "def total(numbers):\n    return sum(numbers[:1])\n"
    assert wrong["none"] == "def total(numbers):\n    return\n"
    assert "off_by_one" in wrong
    assert "edits" not in wrong


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ('[a]\nfind = "sum"\nreplace = "max"\nwith = 1', "a.with: Extra inputs"),
        ('[a]\nfind = "sum"', "a.replace: Field required"),
        ('[a]\nreplace = "max"', "a.find: Field required"),
        ('[a]\nfind = 3\nreplace = "max"', "a.find: Input should be a valid string"),
        ('find = "sum"', "find: Input should be a valid dictionary"),
        ('[a]\nfind = "sun"\nreplace = "max"', "a: find is not in the reference"),
        # Once as the argument of total, once as that of sum.
        ('[a]\nfind = "numbers"\nreplace = "x"', "a: find is in the reference more than once; add what stands around"),
        ('[a]\nfind = ""\nreplace = "x"', "a: find is in the reference more than once"),
        ('[a]\nfind = "sum"\nreplace = "sum"', "a: replace is the same as find, so the answer would be the reference"),
        ('[off_by_one]\nfind = "sum"\nreplace = "max"', "off_by_one: wrong/off_by_one.py has this name too; rename"),
        ('["off_by_one.py"]\nfind = "sum"\nreplace = "max"', "off_by_one.py: wrong/off_by_one.py has this name too"),
        ("[a", "Expected ']'"),
    ],
)
def test_an_edit_that_makes_no_answer_is_refused(folder, entry, complaint):
    (folder / "wrong" / "edits.toml").write_text(entry)
    with pytest.raises(EnvironmentDefinitionError, match=re.escape(f"wrong/edits.toml: {complaint}")) as info:
        EnvironmentFolder(folder).wrong()
    assert "\n" not in str(info.value)


def test_a_verifier_may_define_classes_that_look_their_module_up(folder):
    path, text = folder / "verifier.py", (folder / "verifier.py").read_text()
    head = "from __future__ import annotations\nimport pickle\nfrom dataclasses import dataclass\n"
    body = "@dataclass\nclass Point:\n    x: int\nassert pickle.loads(pickle.dumps(Point(2))).x == 2\n"
    path.write_text(head + text + body)
    load_environment(folder)
    known = {name: module for name, module in sys.modules.items() if name.startswith("deepgym_verifier_mine_")}
    path.write_text("raise ValueError\n")
    with pytest.raises(EnvironmentDefinitionError, match="ValueError"):
        load_environment(folder)
    # The failed load leaves what was there.
    assert known == {name: sys.modules[name] for name in sys.modules if name.startswith("deepgym_verifier_mine_")}


def test_missing_files_are_named(folder):
    (folder / "task.md").unlink()
    with pytest.raises(EnvironmentDefinitionError, match=r"task\.md"):
        load_environment(folder)
    (folder / "reference.py").unlink()
    with pytest.raises(EnvironmentDefinitionError, match=r"reference\.\* file, has 0"):
        EnvironmentFolder(folder).reference()
    with pytest.raises(EnvironmentDefinitionError, match=r"no env\.toml"):
        EnvironmentFolder(folder.parent)


def test_new_refuses_bad_names_and_existing_folders(tmp_path, folder):
    for name in ("Mine", "a-b", "", "../x", "1a"):
        with pytest.raises(EnvironmentDefinitionError, match="a name is lower case"):
            create_environment(tmp_path, name)
    with pytest.raises(EnvironmentDefinitionError, match="exists"):
        create_environment(tmp_path, "mine")
    with pytest.raises(EnvironmentDefinitionError, match="choose function, program, files"):
        create_environment(tmp_path, "other", "essay")


def test_two_folders_of_one_name_keep_their_own_verifier(tmp_path):
    first, second = (create_environment(tmp_path / part, "mine") for part in "ab")
    path = second / "verifier.py"
    path.write_text(path.read_text().replace("return sum(numbers)", "return -sum(numbers)"))
    one, two = load_environment(first), load_environment(second)
    assert hidden_cases(one)[0].expected == -hidden_cases(two)[0].expected


def test_the_package_imports_without_what_it_does_not_need():
    """Neither the trainer's packages nor the service's or an engine's are loaded by `import deepgym`."""
    code = "import sys, deepgym; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert not {"torch", "ray", "vllm", "transformers", "openrlhf", "docker", "fastapi", "numpy"} & set(loaded.split())


def test_new_says_where_it_cannot_write(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentDefinitionError, match="file/mine: cannot be written: Not a directory"):
        create_environment(tmp_path / "file", "mine")


def test_an_answer_that_is_no_text_is_named(folder):
    for name in ("reference.py", "wrong/off_by_one.py"):
        (folder / name).write_bytes(b"\xff")
    for read, name in (
        (EnvironmentFolder(folder).reference, "reference.py"),
        (EnvironmentFolder(folder).wrong, "off_by_one.py"),
    ):
        with pytest.raises(EnvironmentDefinitionError, match=f"{name}: cannot be read"):
            read()
