"""How far the particles are from being one: effective sample size and unique ancestors.

One row a dataset; for both quantities one panel a kernel and one line a scheme, the mean over seeds.
"""

import pandas as pd
from figure_style import (
    DATASETS,
    KERNELS,
    SCHEMES,
    drawn,
    grid,
    only,
    ordered,
    plain_log_scale,
    read_traces,
    save,
    shared_legend,
)
from matplotlib.figure import Figure

QUANTITIES = {"ess": r"$J_{\mathrm{eff}}$", "unique_ancestors": "unique ancestors"}


def draw(traces: pd.DataFrame) -> Figure:
    """Plot both quantities for every kernel (columns) and dataset (rows)."""
    datasets, kernels = ordered(traces["dataset"], DATASETS), ordered(traces["kernel"], KERNELS)
    columns = [(quantity, kernel) for quantity in QUANTITIES for kernel in kernels]
    figure, axes = grid(len(datasets), len(columns), 1.65, sharex=True, sharey=True)
    for row, dataset in enumerate(datasets):
        for panel, (quantity, kernel) in zip(axes[row], columns, strict=True):
            rows = only(traces, dataset=dataset, kernel=kernel)
            for scheme in ordered(rows["scheme"], SCHEMES):
                mean = only(rows, scheme=scheme).groupby("iteration")[quantity].mean()
                panel.plot(mean.index, mean, **SCHEMES[scheme].line() | {"linewidth": 1})
        axes[row, 0].set_ylabel(f"{DATASETS[dataset]}\nparticles")
    for panel, (quantity, kernel) in zip(axes[0], columns, strict=True):
        panel.set_title(f"{QUANTITIES[quantity]}, {KERNELS[kernel]}")
    plain_log_scale(axes[0, 0])
    figure.supxlabel("iteration $k$", fontsize=8)
    shared_legend(figure, drawn(axes.flat))
    return figure


if "snakemake" in globals():
    job = globals()["snakemake"]
    save(draw(read_traces(job.params.runs, job.input.traces)), job.output.pdf, job.output.png)
