"""Test scores on the way, against the gradient evaluations spent so far.

One column per dataset and kernel, one line per scheme: the mean over seeds at the iterations where the run
was scored, inside a band from the lowest to the highest seed.
"""

import pandas as pd
from lib.panels import Column, block_grid, blocks_of, scores_in
from lib.script import run_script
from lib.style import cost_axes, dataset_kernels, only, plot_schemes, read_traces, save, shared_legend
from matplotlib.figure import Figure


def curve(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Cost and mean, lowest and highest score over seeds, at every scored iteration."""
    scored = rows.dropna(subset=[score]).groupby("iteration")
    return scored.agg(
        x=("gradient_evaluations", "mean"), y=(score, "mean"), low=(score, "min"), high=(score, "max")
    )


def comparable(column: Column) -> tuple[str, ...]:
    """Accuracies of different datasets share an axis; scores in the units of a dataset do not."""
    own = () if "test_accuracy" in column.scores else (column.dataset,)
    return (*own, *column.scores)


def draw(traces: pd.DataFrame) -> Figure:
    """Plot the scores (rows) of every dataset and kernel (columns)."""
    columns = []
    for (dataset, kernel), title in dataset_kernels(traces).items():
        scores = scores_in(only(traces, dataset=dataset))
        columns.append(Column(dataset, title, only(traces, dataset=dataset, kernel=kernel), scores))
    blocks = blocks_of(columns, comparable)
    figure, parts = block_grid(
        [(len(block[0].scores), len(block)) for block in blocks], 1.65, sharex=True, sharey="row"
    )
    for block, (_, axes) in zip(blocks, parts, strict=True):
        for column, panels in zip(block, axes.T, strict=True):
            for panel, score in zip(panels, column.scores, strict=True):
                plot_schemes(panel, column.rows, lambda own, score=score: curve(own, score))
            panels[0].set_title(column.title)
        costs = pd.concat([column.rows["gradient_evaluations"] for column in block])
        cost_axes(axes, block[0].scores, costs, max(map(len, blocks)))
    figure.align_ylabels()
    shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_traces(job.params.runs, job.input.traces)), *job.output), globals())
