"""How much data each iteration uses, one panel per scheme.

Everything is read from the traces of real runs. A fixed scheme does the same in all of them.
"""

import math

import pandas as pd
from lib.labels import scheme_labels
from lib.script import run_script
from lib.style import dataset_kernels, grid, only, read_traces, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = {1: 1, 2: 2, 4: 2}
"""Panels side by side, by number of schemes, where it is not three."""
ENDS_FULL = ["full_batch", "constant_to_refine", "linear", "automated"]


def reference_lines(traces: pd.DataFrame) -> dict[str, int]:
    """N and C, as far as the schemes of the study ever use just as much."""
    full = traces.loc[traces["scheme"].isin(ENDS_FULL), "batch_size"].max()
    single = traces.loc[traces["scheme"] != "full_batch", "batch_size"].min()
    sizes = pd.Series({"full batch": full if full != single else math.nan, "one minibatch": single})
    return sizes.dropna().astype(int).to_dict()


def mark(panel: Axes, lines: dict[str, int], with_labels: bool, in_last_column: bool) -> None:
    """Draw N and C across a panel, named at its right edge."""
    styles = {"full batch": ":", "one minibatch": "-."}
    for name, size in lines.items():
        panel.axhline(size, color="0.45", linestyle=styles[name], linewidth=0.9, zorder=1)
        if with_labels:
            panel.annotate(
                f"{name}\n({size:,})",
                (1, size),
                (3, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                fontsize=7,
                color="0.3",
                va="center",
                annotation_clip=False,
                in_layout=in_last_column,
            )


def draw(traces: pd.DataFrame) -> Figure:
    """Plot M_k over k in the first run of every scheme, one panel each."""
    run = only(traces, **traces.iloc[0][["dataset", "kernel", "seed"]])
    schemes = scheme_labels(run["scheme"])
    lines = reference_lines(run)
    n_columns = COLUMNS.get(len(schemes), 3)
    n_rows = -(-len(schemes) // n_columns)
    figure, axes = grid(n_rows, n_columns, 1.25, sharex=True, sharey=True)
    panels = list(axes.flat)
    for panel in panels[len(schemes) :]:
        panel.remove()
    for place, ((scheme, look), panel) in enumerate(zip(schemes.items(), panels, strict=False)):
        rows = only(run, scheme=scheme)
        in_last_column = (place + 1) % n_columns == 0
        mark(panel, lines, in_last_column or place == len(schemes) - 1, in_last_column)
        panel.plot(rows["iteration"], rows["batch_size"], color=look.colour, drawstyle="steps-mid")
        # Runs of smooth annealing differ, so its panel says which run it shows.
        about = f"\n{next(iter(dataset_kernels(rows).values()))}, seed {rows['seed'].iloc[0]}"
        panel.set_title(look.title + about * (scheme == "smooth_data_annealing"))
        panel.grid(visible=False, axis="y")
        if place + n_columns >= len(schemes):
            panel.tick_params(labelbottom=True)
            panel.set_xlabel("iteration $k$")
    most = run["batch_size"].max()
    panels[0].set_ylim(-0.05 * most, 1.12 * most)
    panels[0].yaxis.set_major_formatter("{x:,.0f}")
    figure.supylabel("images in use, $M_k$", fontsize=8)
    return figure


run_script(lambda job: save(draw(read_traces(job.params.runs, job.input.traces)), *job.output), globals())
