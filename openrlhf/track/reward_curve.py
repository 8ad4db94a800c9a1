"""reward_curve.png: the mean reward of each step, with the held-out scores where there was an evaluation."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

TRAINING = "rollout/reward_mean"
HELD_OUT_SUFFIX = "pass1"  # eval_<data source>_pass1


def points(rows: Sequence[Mapping[str, float]], name: str) -> tuple[list[float], list[float]]:
    """Steps and values of one metric, without the steps that lack it."""
    found = [(row["step"], row[name]) for row in rows if math.isfinite(row.get(name, math.nan))]
    return [step for step, _ in found], [value for _, value in found]


def draw_reward_curve(rows: Sequence[Mapping[str, float]], path: Path) -> bool:
    """Write the picture; return whether there was anything to draw."""
    held_out = sorted({name for row in rows for name in row if name.endswith(HELD_OUT_SUFFIX)})
    curves = {name: points(rows, name) for name in (TRAINING, *held_out)}
    if not any(steps for steps, _ in curves.values()):
        return False
    # Figure instead of pyplot: no global state, no display, nothing for a caller's own plots to trip over.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.0, 4.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps, values = curves[TRAINING]
    axes.plot(steps, values, color="tab:blue", linewidth=1.8, marker=".", label="training reward (mean of the step)")
    for index, name in enumerate(held_out):
        axes.plot(*curves[name], f"C{index + 1}o--", linewidth=1.0, markersize=7, label=f"held out: {name}")
    axes.set_xlabel("step")
    axes.set_ylabel("reward")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path)
    return True
