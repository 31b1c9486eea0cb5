"""Reliability diagrams: how often predictions are right, against how sure they are.

One panel per dataset and kernel, one line per scheme, its test predictions pooled over seeds. Bins that
no prediction falls into are left out. Below each panel stand the expected calibration errors. Where
numbers are predicted, the panel shows how often they lie inside the predictive interval.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lib.labels import DATASETS, label, ordered, scheme_labels
from lib.panels import MOST_PANELS, block_grid
from lib.script import run_script
from lib.style import COLUMN, PAGE, dataset_kernels, only, save, shared_legend
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

COVERAGE = "test_coverage_"
NO_RUNS = pd.DataFrame(columns=["dataset", "kernel", "scheme"])


def read_bins(runs: list[dict[str, Any]], files: list[str]) -> pd.DataFrame:
    """Bins of all runs that have class probabilities: confidence, accuracy and number of examples of each."""
    found = ((run, json.loads(Path(file).read_text())) for run, file in zip(runs, files, strict=True))
    tables = [
        pd.DataFrame(metrics["reliability"]).assign(**run)
        for run, metrics in found
        if "reliability" in metrics
    ]
    return pd.concat(tables).rename_axis("bin").reset_index() if tables else NO_RUNS


def read_coverage(runs: list[dict[str, Any]], files: list[str]) -> pd.DataFrame:
    """Coverage of the predictive intervals of all runs that have some, and what it should be, in per cent."""
    found = []
    for run, file in zip(runs, files, strict=True):
        for name, value in json.loads(Path(file).read_text()).items():
            if name.startswith(COVERAGE):
                found.append(run | {"nominal": float(name.removeprefix(COVERAGE)), "coverage": value})
    return pd.DataFrame(found) if found else NO_RUNS


def pool(bins: pd.DataFrame) -> pd.DataFrame:
    """Add bins up over seeds, as if all examples had been binned together; empty bins fall away."""
    count = bins["n_examples"]
    sums = bins[["confidence", "accuracy"]].mul(count, axis=0).assign(n_examples=count)
    pooled = sums.groupby(bins["bin"]).sum().query("n_examples > 0")
    return pooled.div(pooled["n_examples"], axis=0).assign(n_examples=pooled["n_examples"])


def draw_panel(panel: Axes, bins: pd.DataFrame) -> None:
    """One line per scheme over the diagonal, and the calibration errors below."""
    panel.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle=":", zorder=1)
    lines, errors = [], []
    for scheme, look in scheme_labels(bins["scheme"]).items():
        pooled = pool(only(bins, scheme=scheme))
        style = look.line() | {"linewidth": 1, "marker": look.marker, "markersize": 2.8, "clip_on": False}
        lines += panel.plot(pooled["confidence"], pooled["accuracy"], **style)
        gap = (pooled["accuracy"] - pooled["confidence"]).abs()
        errors.append(f"{np.average(gap, weights=pooled['n_examples']):.3f}")
    panel.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    panel.set_xlabel("confidence")
    below_label = panel.transAxes + ScaledTranslation(0, -0.36, panel.figure.dpi_scale_trans)
    panel.legend(
        lines,
        errors,
        title="expected calibration error",
        title_fontsize=7,
        fontsize=7,
        handlelength=2.2,
        handletextpad=0.4,
        columnspacing=0.8,
        ncols=min(2, len(errors)),
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=below_label,
    )


def draw_coverage(panel: Axes, coverage: pd.DataFrame) -> None:
    """One row of points per scheme, a point per run, beside the line where all should be."""
    looks = scheme_labels(coverage["scheme"])
    nominal = coverage["nominal"].iloc[0]
    panel.axvline(nominal, color="0.6", linewidth=0.8, linestyle=":", zorder=1)
    for place, (scheme, look) in enumerate(looks.items()):
        values = only(coverage, scheme=scheme)["coverage"]
        style = look.line() | {"linestyle": "", "marker": look.marker, "markersize": 3.6, "clip_on": False}
        panel.plot(values, [place] * len(values), **style)
    panel.set(xlim=(0, 100), xticks=[0, 50, 100], ylim=(len(looks) - 0.5, -0.5), yticks=[])
    panel.set_xlabel(f"inside the {nominal:g} % interval (%)")


def draw(bins: pd.DataFrame, coverage: pd.DataFrame = NO_RUNS, unscored: Iterable[str] = ()) -> Figure:
    """Draw one panel for every dataset and kernel: of classes, then of numbers."""
    drawn = [
        (draw_panel, title, only(bins, dataset=dataset, kernel=kernel))
        for (dataset, kernel), title in dataset_kernels(bins).items()
    ]
    of_numbers = [
        (draw_coverage, title, only(coverage, dataset=dataset, kernel=kernel))
        for (dataset, kernel), title in dataset_kernels(coverage).items()
    ]
    blocks = [
        group[first : first + MOST_PANELS]
        for group in (drawn, of_numbers)
        for first in range(0, len(group), MOST_PANELS)
    ]
    note = f"Neither class probabilities nor intervals: {', '.join(label(name).name for name in unscored)}"
    if not blocks:
        figure = Figure(figsize=(COLUMN, 0.5))
        figure.text(0.5, 0.5, note, ha="center", va="center", fontsize=7, wrap=True)
        return figure
    side = PAGE / max(*map(len, blocks), 2) - 0.35
    sizes = [(1, len(block)) for block in blocks]
    figure, parts = block_grid(sizes, min(side, 2.6) + 0.95, sharey=True)
    for block, (_, axes) in zip(blocks, parts, strict=True):
        for panel, (draw_one, title, rows) in zip(axes[0], block, strict=True):
            draw_one(panel, rows)
            panel.set_title(title)
        axes[0, 0].set_ylabel("accuracy" if block[0][0] is draw_panel else "scheme")
    shared_legend(figure)
    if unscored:
        figure.suptitle(note, fontsize=7)
    return figure


def main(job: Any) -> None:
    """Draw what the runs have: bins of confidence, or coverage."""
    bins, coverage = (read(job.params.runs, job.input.metrics) for read in (read_bins, read_coverage))
    shown = {*bins["dataset"], *coverage["dataset"]}
    unscored = [
        name for name in ordered((run["dataset"] for run in job.params.runs), DATASETS) if name not in shown
    ]
    save(draw(bins, coverage, unscored), *job.output)


run_script(main, globals())
