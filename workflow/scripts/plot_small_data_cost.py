"""Few images: test scores against gradient evaluations, one marker per method and number of particles.

Larger markers have more particles; bars are one standard deviation over seeds. Evaluations are those of the
run and of the search that chose its settings: other prior scales, weight decays or learning rates.
"""

from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from lib.labels import DATASETS, Label, label, ordered
from lib.script import run_script
from lib.small_data import TOTAL, choose_priors, mean_over_seeds, read_small_data
from lib.small_labels import method_labels, score_label
from lib.style import grid, only, plain_log_ticks, save, shared_legend
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

SCORES = ("test_accuracy", "test_log_likelihood")
SMALLEST, LARGEST = 3.5, 7.5
MILLION = 10**6


def draw_panel(panel: Axes, means: pd.DataFrame, score: str, look: Label, sizes: dict[int, float]) -> None:
    """One marker per number of particles, joined by a thin line."""
    means = means.sort_values("particles")
    costs = means[f"{TOTAL}_mean"]
    panel.plot(costs, means[f"{score}_mean"], color=look.colour, linewidth=0.6, zorder=1)
    for row in means.to_dict("records"):
        panel.errorbar(
            row[f"{TOTAL}_mean"],
            row[f"{score}_mean"],
            yerr=row[f"{score}_std"],
            fmt=look.marker,
            color=look.colour,
            markersize=sizes[row["particles"]],
            elinewidth=0.7,
        )


def draw(runs: pd.DataFrame) -> Figure:
    """Plot the table of runs: a row per number of images, a column per dataset and score."""
    means = mean_over_seeds(choose_priors(runs))
    particles = sorted(set(means["particles"]))
    step = (LARGEST - SMALLEST) / max(1, len(particles) - 1)
    sizes = {n: SMALLEST + i * step for i, n in enumerate(particles)}
    looks, columns = (
        method_labels(means["method"]),
        list(product(ordered(means["dataset"], DATASETS), SCORES)),
    )
    n_trains = sorted(set(means["n_train"]))
    figure, axes = grid(max(1, len(n_trains)), max(1, len(columns)), 1.4, sharex=True)
    for n_train, panels in zip(n_trains, axes, strict=False):
        panels[0].set_ylabel(f"$N={n_train}$")
        for (dataset, score), panel in zip(columns, panels, strict=True):
            for method, look in looks.items():
                own = only(means, n_train=n_train, dataset=dataset, method=method)
                draw_panel(panel, own, score, look, sizes)
    for (dataset, score), panel in zip(columns, axes[0], strict=False):
        panel.set_title(f"{label(dataset).name}\n{score_label(score).name}")
    if len(means):
        axes[0, 0].set_xscale("log")
        plain_log_ticks(axes[0, 0].xaxis, MILLION, at_most=50)
    for panel in axes[-1]:
        panel.set_xlabel("gradient evaluations\n(millions)")
    figure.align_ylabels()
    if looks:
        shared_legend(figure, legend_entries(looks, sizes), handlelength=1.4)
    return figure


def legend_entries(looks: dict[str, Label], sizes: dict[int, float]) -> dict[str, Any]:
    """Methods by colour and marker, particles by the size of a marker."""
    entries: dict[str, Any] = {
        look.title: Line2D([], [], color=look.colour, marker=look.marker, linestyle="", markersize=5)
        for look in looks.values()
    }
    for n_particles, size in sizes.items():
        key = Line2D([], [], color="0.4", marker="o", linestyle="", markersize=size)
        entries[f"$J={n_particles}$"] = key
    return entries


run_script(lambda job: save(draw(read_small_data(Path(job.input.runs))), *job.output), globals())
