"""Few images: test scores (rows) against the number of training images, per dataset (columns).

One line per method with the number of particles that most of its runs have: the mean over seeds, with bars of
one standard deviation. Prior scales are chosen without test data.
"""

from pathlib import Path

import pandas as pd
from lib.labels import DATASETS, label, ordered
from lib.script import run_script
from lib.small_data import choose_priors, mean_over_seeds, read_small_data
from lib.small_labels import method_labels, score_label
from lib.style import grid, only, plain_log_ticks, save, shared_legend
from matplotlib.figure import Figure

SCORES = ("test_accuracy", "test_log_likelihood")


def usual_particles(runs: pd.DataFrame) -> int:
    """The number of particles of most runs, the largest of several."""
    counts = runs["particles"].value_counts()
    return int(counts[counts == counts.max()].index.max())


def draw(runs: pd.DataFrame) -> Figure:
    """Plot the table of runs."""
    chosen = choose_priors(runs)
    datasets, looks = ordered(chosen["dataset"], DATASETS), method_labels(chosen["method"])
    figure, axes = grid(len(SCORES), max(1, len(datasets)), 2.1, sharex=True, sharey="row")
    for dataset, panels in zip(datasets, axes.T, strict=False):
        panels[0].set_title(label(dataset).name)
        for i, (method, look) in enumerate(looks.items()):
            own = only(chosen, method=method)
            n_particles = usual_particles(own)
            means = mean_over_seeds(only(own, dataset=dataset, particles=n_particles)).sort_values("n_train")
            for panel, score in zip(panels, SCORES, strict=True):
                panel.errorbar(
                    means["n_train"] * 1.012 ** (i - len(looks) / 2),  # bars side by side
                    means[f"{score}_mean"],
                    yerr=means[f"{score}_std"],
                    marker=look.marker,
                    markersize=4,
                    elinewidth=0.8,
                    **look.line() | {"label": f"{look.title}, $J={n_particles}$"},
                )
    for panel, score in zip(axes[:, 0], SCORES, strict=True):
        panel.set_ylabel(score_label(score).name)
    axes[0, 0].set_xscale("log")
    sizes = sorted(set(runs["n_train"]))
    for panel in axes[-1]:
        plain_log_ticks(panel.xaxis)
        panel.set_xticks(sizes, list(map(str, sizes)))
        panel.set_xlabel("training images")
    figure.align_ylabels()
    if looks:
        shared_legend(figure)
    return figure


run_script(lambda job: save(draw(read_small_data(Path(job.input.runs))), *job.output), globals())
