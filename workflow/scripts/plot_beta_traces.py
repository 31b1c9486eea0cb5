"""How smooth data annealing brings data in: beta and the number of minibatches over iterations.

One column per dataset, with the run of the first seed. Each kernel has a panel of its own for beta,
which goes up and down too often for two to share one, and a line in the panel of minibatches below.
"""

import numpy as np
import pandas as pd
from lib.labels import DATASETS, KERNELS, label, ordered
from lib.panels import MOST_PANELS, block_grid
from lib.script import run_script
from lib.style import only, read_traces, save, shared_legend
from matplotlib import ticker
from matplotlib.figure import Figure


def draw_block(axes: np.ndarray, traces: pd.DataFrame, datasets: list[str], kernels: list[str]) -> None:
    """Plot beta_k, one row per kernel, over the number of minibatches."""
    seed = traces["seed"].iloc[0]
    for column, dataset in enumerate(datasets):
        for row, kernel in enumerate(kernels):
            run = only(traces, dataset=dataset, kernel=kernel, seed=seed)
            look = label(kernel)
            axes[row, column].plot(run["iteration"], run["beta"], color=look.colour, linewidth=1)
            axes[-1, column].plot(run["iteration"], run["n_batches"], drawstyle="steps-mid", **look.line())
        axes[-1, column].set_xlabel("iteration $k$")
        axes[0, column].set_title(f"{label(dataset).name}, seed {seed}")
    for row, kernel in enumerate(kernels):
        axes[row, 0].set(ylabel=rf"$\beta_k$ ({label(kernel).name})", ylim=(-0.05, 1.05), yticks=[0, 0.5, 1])
    axes[-1, 0].set_ylabel("minibatches")
    axes[-1, 0].set_ylim(bottom=0)
    axes[-1, 0].yaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))


def draw(traces: pd.DataFrame) -> Figure:
    """Plot every dataset, as many side by side as fit."""
    datasets, kernels = ordered(traces["dataset"], DATASETS), ordered(traces["kernel"], KERNELS)
    blocks = [datasets[first : first + MOST_PANELS] for first in range(0, len(datasets), MOST_PANELS)]
    heights = [*(1.0 for _ in kernels), 1.4]
    figure, parts = block_grid(
        [(len(heights), len(block)) for block in blocks],
        1.05,
        sharex=True,
        sharey="row",
        gridspec_kw={"height_ratios": heights},
    )
    for block, (_, axes) in zip(blocks, parts, strict=True):
        draw_block(axes, traces, block, kernels)
    figure.align_ylabels()
    if len(kernels) > 1:
        shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_traces(job.params.runs, job.input.traces)), *job.output), globals())
