"""Attacks that stay: processes and traces that outlive the step or the run."""

from tests.integration.deepgym.attacks.attack import Attack

_RUN_AWAY = """
first = os.getpid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        open("daemon.pid", "w").write(str(os.getpid()))
        %s
        time.sleep(6)
    os._exit(0)
os.wait()
while not os.path.exists("daemon.pid"):
    time.sleep(0.01)
"""
_LOOK_FOR_IT = """
for _ in range(20):
    others = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid not in (1, os.getpid())]
    for pid in others:
        try:
            if b"daemon_that_outlives" in open(f"/proc/{pid}/cmdline", "rb").read():
                breach(pid)
        except OSError:
            pass
    time.sleep(0.01)
"""

ALL = (
    Attack("daemon_that_outlives_its_step", ("step_boundary",), _RUN_AWAY % "pass", second=_LOOK_FOR_IT),
    Attack(
        "daemon_that_rewrites_the_next_step_s_files",
        ("step_boundary",),
        _RUN_AWAY
        % """
        while os.path.exists(f"/proc/{first}"):
            time.sleep(0.01)
        time.sleep(0.1)
        open("result", "w").write("forged")
        """.strip(),
        second="""
for _ in range(100):
    if os.path.exists("result"):
        breach()
        break
    time.sleep(0.01)
""",
    ),
)

# Seen from outside: no process with this mark may be left once `run` has returned.
LEFT_BEHIND = Attack(
    "daemon_that_outlives_its_run",
    ("jail",),
    'os.environ["MARK"] = host["daemon_mark"]\n' + _RUN_AWAY % 'os.execvp("sleep", [host["daemon_mark"], "20"])',
)
