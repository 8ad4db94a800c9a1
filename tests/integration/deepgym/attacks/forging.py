"""Answers that want a score without solving the task, and a grader without walls, which they fool.

The naive grader runs the answer in its own process, keeps the expected values there, and believes that process's exit
code and output. Each forgery below makes it report success.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NAIVE_GRADER = """\
import json, sys
CASES = [([1, 2, 5], 11, 3), ([2], 3, -1), ([1, 10, 25], 40, 4)]

def main():
    namespace = {"__name__": "solution"}
    exec(open("answer.py").read(), namespace)
    passed = 0
    for coins, amount, expected in CASES:
        if namespace["coin_change"](coins, amount) == expected:
            passed += 1
    print(json.dumps({"score": passed / len(CASES)}))
    sys.exit(0 if passed == len(CASES) else 1)

main()
"""
# A second way to be naive: results travel as pickles.
NAIVE_UNPICKLER = """\
import pickle, subprocess, sys
answer = "exec(open('answer.py').read()); import pickle; open('value', 'wb').write(pickle.dumps(coin_change([2], 3)))"
subprocess.run([sys.executable, "-c", answer])
value = pickle.load(open("value", "rb"))
sys.exit(0 if value == -1 else 1)
"""
_VERDICT = '{"score": 1.0, "passed": true, "has_verdict": true, "reward": 1.0}'


@dataclass(frozen=True, slots=True)
class Forgery:
    """An answer to coin_change that solves nothing."""

    name: str
    code: str
    grader: str = NAIVE_GRADER

    def fools(self, folder: Path) -> bool:
        """Run it under the naive grader: true when that reports, or leaves behind, a success."""
        (folder / "grader.py").write_text(self.grader)
        (folder / "answer.py").write_text(self.code)
        # The shell is the grader's parent; what it says is believed, also when it is shot.
        command = ["sh", "-c", f"{sys.executable} grader.py; exit $?"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, start_new_session=True)
        return done.returncode in (0, -9) or '"score": 1.0' in done.stdout


ALL = (
    Forgery("exit_at_import", "import sys\nsys.exit(0)"),
    Forgery("hard_exit_at_import", "import os\nos._exit(0)"),
    Forgery("exit_in_the_call", "import sys\ndef coin_change(coins, amount): sys.exit(0)"),
    Forgery("hard_exit_in_the_call", "import os\ndef coin_change(coins, amount): os._exit(0)"),
    Forgery(
        "exit_in_a_destructor", "import os\nclass D:\n    def __del__(self): os._exit(0)\ndef coin_change(c, a): D()"
    ),
    Forgery("exit_at_exit", "import atexit, os\natexit.register(os._exit, 0)\ndef coin_change(c, a): return -2"),
    Forgery("kill_the_parent", "import os\ndef coin_change(c, a): os.kill(os.getppid(), 9)"),
    Forgery("printed_verdict", f"print('{_VERDICT}', flush=True)\ndef coin_change(c, a): return -2"),
    Forgery(
        "verdict_on_every_descriptor",
        f"import os\nfor fd in range(1024):\n    try: os.write(fd, b'{_VERDICT}\\n')\n    except OSError: pass\n"
        "def coin_change(c, a): return -2",
    ),
    Forgery(
        "printed_verdict_in_an_exception",
        f"class E(Exception):\n    def __str__(self): print('{_VERDICT}', flush=True); return ''\n"
        "def coin_change(c, a): raise E",
    ),
    Forgery(
        "equal_to_everything",
        "class Yes:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n"
        "def coin_change(c, a): return Yes()",
    ),
    Forgery(
        "integer_equal_to_everything",
        "class Yes(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def coin_change(c, a): return Yes(7)",
    ),
    Forgery(
        "patched_print",
        f"import builtins\nreal = print\nbuiltins.print = lambda *a, **k: real('{_VERDICT}')\n"
        "def coin_change(c, a): return -2",
    ),
    Forgery(
        "patched_json", f"import json\njson.dumps = lambda *a, **k: '{_VERDICT}'\ndef coin_change(c, a): return -2"
    ),
    Forgery(
        "patched_exit",
        "import sys\nreal = sys.exit\nsys.exit = lambda code=0: real(0)\ndef coin_change(c, a): return -2",
    ),
    Forgery(
        "frame_walk",
        "import sys\ndef coin_change(c, a):\n    frame = sys._getframe(1)\n    while frame:\n"
        "        if 'expected' in frame.f_locals: return frame.f_locals['expected']\n        frame = frame.f_back\n"
        "    return -2",
    ),
    Forgery(
        "traceback_walk",
        "def coin_change(c, a):\n    try: 1 / 0\n    except ZeroDivisionError as error:\n"
        "        frame = error.__traceback__.tb_frame.f_back\n        return frame.f_locals.get('expected', -2)",
    ),
    Forgery(
        "garbage_walk",
        "import gc\ndef coin_change(c, a):\n    for thing in gc.get_objects():\n"
        "        if type(thing) is tuple and len(thing) == 3 and thing[0] is c: return thing[2]\n    return -2",
    ),
    Forgery(
        "rewritten_cases",
        "import sys\ncases = getattr(sys.modules['__main__'], 'CASES', [])\n"
        "cases[:] = [(coins, amount, -2) for coins, amount, _ in cases]\ndef coin_change(c, a): return -2",
    ),
    Forgery(
        "source_of_the_grader",
        "import re, sys\ntext = open(getattr(sys.modules['__main__'], '__file__', '/nowhere')).read()\n"
        "cases = eval(re.search(r'CASES = (.*)', text).group(1))\n"
        "def coin_change(c, a): return next(case[2] for case in cases if case[:2] == (c, a))",
    ),
    Forgery(
        "pickled_command",
        "import os\nclass Bomb:\n    def __reduce__(self): return os._exit, (0,)\ndef coin_change(c, a): return Bomb()",
        grader=NAIVE_UNPICKLER,
    ),
)

# Values and ends that a careless judge stumbles over: name -> answer.
ODD = {
    "nesting_too_deep": "def coin_change(c, a):\n    x = []\n    for _ in range(100000): x = [x]\n    return x",
    "list_that_holds_itself": "def coin_change(c, a):\n    x = []\n    x.append(x)\n    return x",
    "integer_of_many_digits": "def coin_change(c, a): return 10 ** 30000",
    "half_of_a_surrogate_pair": "def coin_change(c, a): return '\\ud800'",
    "zero_bytes": "def coin_change(c, a): return '\\x00' * 100",
    "zero_bytes_and_surrogates_printed": "print('\\x00\\ud83d')\ndef coin_change(c, a): return -2",
    "not_a_number": "def coin_change(c, a): return float('nan')",
    "infinity": "def coin_change(c, a): return float('inf')",
    "bytes": "def coin_change(c, a): return b'3'",
    "true_for_one": "def coin_change(c, a): return True",
    "generator": "def coin_change(c, a): yield 3",
    "recursion": "def coin_change(c, a): return coin_change(c, a)",
    "keyboard_interrupt": "def coin_change(c, a): raise KeyboardInterrupt",
    "generator_exit": "def coin_change(c, a): raise GeneratorExit",
    "exception_without_text": "class E(Exception):\n    def __str__(self): raise self\ndef coin_change(c, a): raise E",
    "crash": "import ctypes\ndef coin_change(c, a): ctypes.string_at(0)",
    "abort": "import os\ndef coin_change(c, a): os.abort()",
    "stop_yourself": "import os, signal\ndef coin_change(c, a): os.kill(os.getpid(), signal.SIGKILL)",
    "closed_descriptors": "import os\ndef coin_change(c, a): os.closerange(0, 1024)",
    "zero_byte_in_the_code": "def coin_change(c, a): return 3 \x00",
    "no_function": "x = 1",
    "function_that_is_none": "coin_change = 3",
    "nothing": "",
}
