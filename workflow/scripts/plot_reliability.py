"""Reliability diagrams: how often predictions are right, against how sure they are.

One panel per dataset and kernel, one line per scheme, its test predictions pooled over seeds. Bins that
no prediction falls into are left out. Below each panel stand the expected calibration errors.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lib.labels import scheme_labels
from lib.script import run_script
from lib.style import PAGE, dataset_kernels, grid, only, save, shared_legend
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation


def read_bins(runs: list[dict[str, Any]], files: list[str]) -> pd.DataFrame:
    """All runs' bins in one table: confidence, accuracy and number of examples of each."""
    bins = [json.loads(Path(file).read_text())["reliability"] for file in files]
    tables = [pd.DataFrame(bin_).assign(**run) for run, bin_ in zip(runs, bins, strict=True)]
    return pd.concat(tables).rename_axis("bin").reset_index()


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


def draw(bins: pd.DataFrame) -> Figure:
    """Draw one panel for every dataset and kernel."""
    pairs = dataset_kernels(bins)
    side = PAGE / max(len(pairs), 2) - 0.35
    figure, axes = grid(1, len(pairs), min(side, 2.6) + 0.95, sharey=True)
    for panel, ((dataset, kernel), title) in zip(axes[0], pairs.items(), strict=True):
        draw_panel(panel, only(bins, dataset=dataset, kernel=kernel))
        panel.set_title(title)
    axes[0, 0].set_ylabel("accuracy")
    shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_bins(job.params.runs, job.input.metrics)), *job.output), globals())
