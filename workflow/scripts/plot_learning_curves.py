"""Test scores on the way, against the gradient evaluations spent so far.

One column per dataset and kernel, one line per scheme: the mean over seeds at the iterations where the run
was scored, inside a band from the lowest to the highest seed.
"""

from typing import Any

import pandas as pd
from lib.labels import DATASETS, KERNELS, SCORES, label, ordered, scheme_labels
from lib.script import run_script
from lib.style import cost_axes, drawn, grid, only, read_traces, save, shared_legend, staggered
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def curve(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Cost and mean, lowest and highest score over seeds, at every scored iteration."""
    scored = rows.dropna(subset=[score]).groupby("iteration")
    return scored[score].agg(["mean", "min", "max"]).assign(cost=scored["gradient_evaluations"].mean())


def draw_panel(panel: Axes, traces: pd.DataFrame, score: str) -> None:
    """One line and one band per scheme."""
    looks = scheme_labels(traces["scheme"])
    for place, (scheme, look) in enumerate(looks.items()):
        line = curve(only(traces, scheme=scheme), score)
        panel.fill_between(line["cost"], line["min"], line["max"], color=look.colour, alpha=0.13, linewidth=0)
        panel.plot(
            line["cost"],
            line["mean"],
            marker=look.marker,
            markersize=3.2,
            markevery=staggered(len(line), place, len(looks)),
            **look.line(),
        )


def draw(traces: pd.DataFrame) -> Figure:
    """Plot both scores (rows) for every dataset and kernel (columns)."""
    pairs = [
        (dataset, kernel)
        for dataset in ordered(traces["dataset"], DATASETS)
        for kernel in ordered(traces["kernel"], KERNELS)
    ]
    figure, axes = grid(len(SCORES), len(pairs), 1.65, sharex=True, sharey="row")
    for column, (dataset, kernel) in enumerate(pairs):
        for panel, score in zip(axes[:, column], SCORES, strict=True):
            draw_panel(panel, only(traces, dataset=dataset, kernel=kernel), score)
        axes[0, column].set_title(f"{label(dataset).name}, {label(kernel).name}")
    for panel, score in zip(axes[:, 0], SCORES, strict=True):
        panel.set_ylabel(label(score).name)
    cost_axes(axes, traces["gradient_evaluations"])
    figure.align_ylabels()
    shared_legend(figure, drawn(axes.flat))
    return figure


def main(job: Any) -> None:
    """Draw the figure of a rule."""
    # Traces are either one file per run, or one table of many runs.
    many = job.input.get("table")
    traces = pd.read_csv(many) if many else read_traces(job.params.runs, job.input.traces)
    save(draw(traces), *job.output)


run_script(main, globals())
