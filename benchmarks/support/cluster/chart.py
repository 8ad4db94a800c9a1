"""The study's picture: speed-up and staleness over the number of engines."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib

from .loop import Outcome
from .study import TAILS, Case

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "cluster study", "svg.fonttype": "none"}  # equal data, equal file
COLOURS = {1: "#2563eb", 2: "#e8710a", 4: "#15803d", 8: "#b91c8c"}


def draw(path: Path, outcomes: Mapping[Case, Outcome]) -> None:
    """Top: samples/s over those of the synchronous loop. Bottom: the greatest staleness of what is trained on."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(TAILS), figsize=(10, 7), sharex=True, sharey="row", layout="constrained")
    for column, tail in enumerate(TAILS):
        own = {case: outcome for case, outcome in outcomes.items() if case.tail == tail}
        baseline = {case.engines: each.samples_per_second for case, each in own.items() if case.queue_size == 0}
        for size in sorted({case.queue_size for case in own} - {0}):
            for keep in (False, True):
                line = {c.engines: o for c, o in own.items() if (c.queue_size, c.keep_in_flight) == (size, keep)}
                style = {"color": COLOURS[size], "linestyle": "--" if keep else "-", "marker": "o", "markersize": 3}
                label = f"queue {size}" + (", partial rollout" if keep else "")
                speed_up = [outcome.samples_per_second / baseline[count] for count, outcome in line.items()]
                axes[0][column].plot(list(line), speed_up, label=label, **style)
                axes[1][column].plot(list(line), [outcome.staleness_max for outcome in line.values()], **style)
        axes[0][column].set_title(f"response length: {tail} (lognormal, sigma {TAILS[tail]})")
        axes[1][column].set_xlabel("engines")
        axes[1][column].set_xscale("log", base=2)
        axes[1][column].set_xticks(sorted(baseline), [str(count) for count in sorted(baseline)])
        axes[1][column].minorticks_off()
    axes[0][0].set_ylabel("samples/s over synchronous")
    axes[1][0].set_ylabel("greatest staleness, updates")
    for axis in axes.flat:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", fontsize=9, ncols=4)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
