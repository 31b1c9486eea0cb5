"""Few images: log evidence and test log-likelihood, side by side, against the scale of the prior.

One row per number of images, one line per number of particles: the mean over seeds, with bars of one standard
deviation. A ring marks the scale of largest mean evidence, which is chosen without a look at the test images.
Runs whose evidence was withheld are left out of the panels of the evidence.
"""

from itertools import product
from pathlib import Path

import pandas as pd
from lib.labels import DATASETS, label, ordered
from lib.script import run_script
from lib.small_data import read_small_data
from lib.small_labels import score_label
from lib.small_tables import gain
from lib.style import grid, only, save, shared_legend
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smcda.config import ADAPTIVE, HIERARCHICAL

SCORES = ("log_evidence", "test_log_likelihood")
COLOURS = ("#6DC3F0", "#B5274B", "#3B2C8F", "#E07B00", "#117F74")
MARKERS = ("o", "s", "D", "^", "v")
LEARNT = "learnt"


def ticks(scales: list[str]) -> list[str]:
    """Prior scales in units of 1/sqrt(fan_in), in short."""
    return [LEARNT if s == HIERARCHICAL else s.removesuffix("fan_in").rstrip("*") or "1" for s in scales]


def draw_panel(panel: Axes, runs: pd.DataFrame, score: str, scales: list[str], particles: list[int]) -> None:
    """One line per number of particles, over equally spaced scales; the learnt one stands alone."""
    for i, n_particles in enumerate(particles):
        found = only(runs, particles=n_particles).groupby("prior_scale")[score].agg(["mean", "std"])
        found = found.reindex(scales).assign(x=range(len(scales))).dropna(subset=["mean"])
        look = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "markersize": 4}
        learnt = found.index == HIERARCHICAL
        for part, line in ((found[~learnt], "-"), (found[learnt], "")):
            name = {"label": f"$J={n_particles}$"} if line else {}
            panel.errorbar(
                part["x"] + 0.06 * i,
                part["mean"],
                part["std"],
                linestyle=line,
                elinewidth=0.8,
                **look,
                **name,
            )
        fixed = found[~learnt]
        if score == "log_evidence" and len(fixed) > 1:
            best = fixed["mean"].idxmax()
            panel.plot(
                fixed["x"][best] + 0.06 * i, fixed["mean"][best], "o", markersize=10, markerfacecolor="none",
                color=look["color"], markeredgewidth=0.9,
            )  # fmt: skip


def draw(runs: pd.DataFrame) -> Figure:
    """Plot the runs of the adaptive sampler."""
    runs = only(runs, scheme=ADAPTIVE)
    scales, particles = sorted(set(runs["prior_scale"]), key=gain), sorted(set(runs["particles"]))
    datasets, sizes = ordered(runs["dataset"], DATASETS), sorted(set(runs["n_train"]))
    columns = list(product(datasets, SCORES))
    figure, axes = grid(max(1, len(sizes)), max(1, len(columns)), 1.35, sharex=True)
    for n_train, panels in zip(sizes, axes, strict=False):
        panels[0].set_ylabel(f"$N={n_train}$")
        for (dataset, score), panel in zip(columns, panels, strict=True):
            draw_panel(panel, only(runs, n_train=n_train, dataset=dataset), score, scales, particles)
    for (dataset, score), panel in zip(columns, axes[0], strict=False):
        panel.set_title(f"{label(dataset).name}\n{score_label(score).name}")
    for panel in axes[-1]:
        panel.set_xticks(range(len(scales)), ticks(scales))
        panel.set_xlabel(r"prior scale $\times\sqrt{\mathrm{fan\ in}}$")
    figure.align_ylabels()
    if len(runs):
        shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_small_data(Path(job.input.runs))), *job.output), globals())
