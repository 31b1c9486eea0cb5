"""How far the particles are from being one: effective sample size and unique ancestors.

One row per dataset; for both quantities one panel per kernel and one line per scheme, the mean over seeds.
The ancestors are those of the first particles, drawn from the prior, that still have descendants.
"""

import pandas as pd
from lib.labels import DATASETS, KERNELS, label, ordered
from lib.script import run_script
from lib.style import grid, only, plain_log_ticks, plot_schemes, read_traces, save, shared_legend
from matplotlib.figure import Figure

QUANTITIES = {"ess": r"$J_{\mathrm{eff}}$", "unique_ancestors": "unique ancestors"}


def line(rows: pd.DataFrame, quantity: str, window: int) -> pd.DataFrame:
    """Mean over seeds; of J_eff, which jumps at every resampling, a running mean."""
    mean = rows.groupby("iteration")[quantity].mean()
    if quantity == "ess":
        mean = mean.rolling(window, center=True, min_periods=1).mean()
    return pd.DataFrame({"x": mean.index, "y": mean})


def draw(traces: pd.DataFrame) -> Figure:
    """Plot both quantities for every kernel (columns) and dataset (rows)."""
    datasets, kernels = ordered(traces["dataset"], DATASETS), ordered(traces["kernel"], KERNELS)
    columns = [(quantity, kernel) for quantity in QUANTITIES for kernel in kernels]
    figure, axes = grid(len(datasets), len(columns), 1.65, sharex=True, sharey=True)
    window = 1 + 2 * (traces["iteration"].nunique() // 40)  # iterations of J_eff to average, an odd number
    for row, dataset in enumerate(datasets):
        for panel, (quantity, kernel) in zip(axes[row], columns, strict=True):
            rows = only(traces, dataset=dataset, kernel=kernel)
            plot_schemes(
                panel, rows, lambda own, quantity=quantity: line(own, quantity, window), linewidth=0.9
            )
        axes[row, 0].set_ylabel(f"{label(dataset).name}\nparticles")
    for panel, (quantity, kernel) in zip(axes[0], columns, strict=True):
        panel.set_title(f"{QUANTITIES[quantity]}, {label(kernel).name}")
    for panel, (quantity, _) in zip(axes[-1], columns, strict=True):
        note = f" (mean of {window})" if quantity == "ess" and window > 1 else ""
        panel.set_xlabel(f"iteration $k${note}")
    most = traces[list(QUANTITIES)].max().max()
    axes[0, 0].set(yscale="log", ylim=(0.9, max(2.2, 1.2 * most)))
    plain_log_ticks(axes[0, 0].yaxis)
    shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_traces(job.params.runs, job.input.traces)), *job.output), globals())
