"""Print and draw what a run of the example learned: programs without an error, and right answers.

python3 examples/tir/report.py runs/tir
"""

import json
import sys
from pathlib import Path

CURVES = {
    "rollout/extra/code_success_rate": "programs without an error",
    "rollout/score_mean": "right answers",
}


def read_steps(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "rollout/score_mean" in row]


def report(steps: list[dict]) -> str:
    """One line per step, and the mean of the first and of the last quarter."""
    lines = [f"{'step':>4}  " + "  ".join(CURVES.values())]
    for step in steps:
        shown = (f"{step.get(name, float('nan')):>{len(text)}.2f}" for name, text in CURVES.items())
        lines.append(f"{step['step']:>4}  " + "  ".join(shown))
    quarter = max(1, len(steps) // 4)
    for name, text in CURVES.items():
        first, last = ([step[name] for step in part if name in step] for part in (steps[:quarter], steps[-quarter:]))
        if first and last:
            lines.append(f"{text}: {sum(first) / len(first):.2f} -> {sum(last) / len(last):.2f}")
    return "\n".join(lines)


def draw(steps: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for name, text in CURVES.items():
        points = [(step["step"], step[name]) for step in steps if name in step]
        axes.plot(*zip(*points, strict=True), marker="o", label=text)
    axes.set(xlabel="step", ylabel="share", ylim=(0, 1.02))
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    run = Path(sys.argv[1])
    steps = read_steps(run)
    print(report(steps))
    draw(steps, run / "tir_curve.png")
    print(f"curve    {run / 'tir_curve.png'}")
