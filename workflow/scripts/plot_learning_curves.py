"""Test scores on the way, against the gradient evaluations spent so far.

One column per dataset and kernel, one line per scheme: the mean over seeds at the iterations where the run
was scored, inside a band from the lowest to the highest seed.
"""

import pandas as pd
from lib.labels import SCORES
from lib.script import run_script
from lib.style import cost_axes, dataset_kernels, grid, only, plot_schemes, read_traces, save, shared_legend
from matplotlib.figure import Figure


def curve(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Cost and mean, lowest and highest score over seeds, at every scored iteration."""
    scored = rows.dropna(subset=[score]).groupby("iteration")
    return scored.agg(
        x=("gradient_evaluations", "mean"), y=(score, "mean"), low=(score, "min"), high=(score, "max")
    )


def draw(traces: pd.DataFrame) -> Figure:
    """Plot both scores (rows) for every dataset and kernel (columns)."""
    pairs = dataset_kernels(traces)
    figure, axes = grid(len(SCORES), len(pairs), 1.65, sharex=True, sharey="row")
    for column, ((dataset, kernel), title) in enumerate(pairs.items()):
        rows = only(traces, dataset=dataset, kernel=kernel)
        for panel, score in zip(axes[:, column], SCORES, strict=True):
            plot_schemes(panel, rows, lambda own, score=score: curve(own, score))
        axes[0, column].set_title(title)
    cost_axes(axes, traces["gradient_evaluations"])
    figure.align_ylabels()
    shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_traces(job.params.runs, job.input.traces)), *job.output), globals())
