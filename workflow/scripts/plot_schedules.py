"""How much data each iteration uses, one panel per scheme.

Everything is read from the traces of real runs. A fixed scheme does the same in all runs on data of one size;
datasets of other sizes have panels of their own.
"""

import math

import pandas as pd
from lib.labels import DATASETS, label, ordered, scheme_labels
from lib.panels import block_grid
from lib.script import run_script
from lib.style import dataset_kernels, only, read_traces, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = {1: 1, 2: 2, 4: 2}
"""Panels side by side, by number of schemes, where it is not three."""
ADAPTS = ["smooth_data_annealing", "adaptive"]
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


def alike(traces: pd.DataFrame) -> list[list[str]]:
    """Datasets whose runs use equally many examples by every fixed scheme, together."""
    first = traces.iloc[0]
    run = only(traces, kernel=first["kernel"], seed=first["seed"])
    groups: dict[tuple[int, ...], list[str]] = {}
    for dataset in ordered(run["dataset"], DATASETS):
        own = only(run, dataset=dataset)
        groups.setdefault(tuple(own.loc[~own["scheme"].isin(ADAPTS), "batch_size"]), []).append(dataset)
    return list(groups.values())


def draw_block(panels: list[Axes], n_columns: int, run: pd.DataFrame) -> None:
    """Plot M_k over k, one panel per scheme."""
    schemes, lines = scheme_labels(run["scheme"]), reference_lines(run)
    for panel in panels[len(schemes) :]:
        panel.remove()
    for place, ((scheme, look), panel) in enumerate(zip(schemes.items(), panels, strict=False)):
        rows = only(run, scheme=scheme)
        in_last_column = (place + 1) % n_columns == 0
        mark(panel, lines, in_last_column or place == len(schemes) - 1, in_last_column)
        panel.plot(rows["iteration"], rows["batch_size"], color=look.colour, drawstyle="steps-mid")
        # Runs of such a scheme differ, so its panel says which run it shows.
        about = f"\n{next(iter(dataset_kernels(rows).values()))}, seed {rows['seed'].iloc[0]}"
        panel.set_title(look.title + about * (scheme in ADAPTS))
        panel.grid(visible=False, axis="y")
        if place + n_columns >= len(schemes):
            panel.tick_params(labelbottom=True)
            panel.set_xlabel("iteration $k$")
    most = run["batch_size"].max()
    panels[0].set_ylim(-0.05 * most, 1.12 * most)
    panels[0].yaxis.set_major_formatter("{x:,.0f}")


def draw(traces: pd.DataFrame) -> Figure:
    """Plot the first run of every scheme, once for datasets that are treated alike."""
    groups = alike(traces)
    n_schemes = traces["scheme"].nunique()
    n_columns = COLUMNS.get(n_schemes, 3)
    size = (-(-n_schemes // n_columns), n_columns)
    figure, parts = block_grid([size] * len(groups), 1.25, sharex=True, sharey=True)
    for datasets, (part, axes) in zip(groups, parts, strict=True):
        run = only(traces, dataset=datasets[0], **traces.iloc[0][["kernel", "seed"]])
        draw_block(list(axes.flat), n_columns, run)
        part.supylabel("examples in use, $M_k$", fontsize=8)
        if len(groups) > 1:
            part.suptitle(", ".join(label(dataset).name for dataset in datasets), fontsize=9)
    return figure


run_script(lambda job: save(draw(read_traces(job.params.runs, job.input.traces)), *job.output), globals())
