"""What accuracy costs: test scores against gradient evaluations, one marker per scheme and kernel.

Marker and colour say the scheme, the filling the kernel; bars are one standard deviation over
seeds. The thin line is the Pareto frontier: what lies behind it is beaten by another combination that
scores no worse for no more evaluations.
"""

from typing import Any

import pandas as pd
from lib.labels import DATASETS, KERNELS, label, ordered, scheme_labels
from lib.panels import Column, block_grid, blocks_of, scores_in
from lib.script import run_script
from lib.style import cost_axes, only, save, shared_legend
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

FRONTIER = "Pareto frontier"


def filling(kernel: str, colour: str) -> tuple[str, dict[str, Any]]:
    """How a kernel's markers are filled, in words and for matplotlib."""
    if kernel == "ld":
        return "open", {"markerfacecolor": "white"}
    if kernel == "hmc":
        return "filled", {"markerfacecolor": colour}
    return "half filled", {"markerfacecolor": colour, "markerfacecoloralt": "white", "fillstyle": "left"}


def frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the (cost, score) points that no other one beats, by rising cost.

    A point is beaten by one that costs no more and scores no less, and is not the same.
    """
    best: list[tuple[float, float]] = []
    for cost, score in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not best or score > best[-1][1]:
            best.append((cost, score))
    return best


def draw_panel(panel: Axes, rows: pd.DataFrame, score: str) -> None:
    """One marker per row, and the frontier: the best score that so much or less can buy."""
    cost = "gradient_evaluations"
    better = label(score).better
    if len(rows) > 1 and better is not None:
        sign = 1 if better == "higher" else -1
        points = zip(rows[f"{cost}_mean"], sign * rows[f"{score}_mean"], strict=True)
        best = [(cost, sign * value) for cost, value in frontier(list(points))]
        to_the_end = [*best, (rows[f"{cost}_mean"].max(), best[-1][1])]
        style = {"color": "0.55", "linewidth": 0.8, "drawstyle": "steps-post", "zorder": 1}
        panel.plot(*zip(*to_the_end, strict=True), label=FRONTIER, **style)
    looks = scheme_labels(rows["scheme"])
    for row in rows.to_dict("records"):
        look = looks[row["scheme"]]
        panel.errorbar(
            row[f"{cost}_mean"],
            row[f"{score}_mean"],
            xerr=row[f"{cost}_std"] or None,
            yerr=row[f"{score}_std"],
            fmt=look.marker,
            color=look.colour,
            **filling(row["kernel"], look.colour)[1],
            markersize=5.5,
            markeredgewidth=1.1,
            elinewidth=0.8,
        )


def draw(summary: pd.DataFrame) -> Figure:
    """Plot the scores (rows) of every dataset (columns) against cost."""
    columns = []
    for dataset in ordered(summary["dataset"], DATASETS):
        rows = only(summary, dataset=dataset)
        scores = scores_in(rows, "_mean")
        rows = rows.dropna(subset=[f"{score}_mean" for score in scores])
        columns += [Column(dataset, label(dataset).name, rows, scores)] * bool(scores)
    summary = pd.concat([column.rows for column in columns])
    blocks = blocks_of(columns, lambda column: tuple(column.scores))
    sizes = [(len(block[0].scores), len(block)) for block in blocks]
    figure, parts = block_grid(sizes, 1.9, sharex=True)
    for block, (_, axes) in zip(blocks, parts, strict=True):
        for column, panels in zip(block, axes.T, strict=True):
            for panel, score in zip(panels, column.scores, strict=True):
                draw_panel(panel, column.rows, score)
            panels[0].set_title(column.title)
        costs = pd.concat([column.rows["gradient_evaluations_mean"] for column in block])
        cost_axes(axes, block[0].scores, costs, max(map(len, blocks)))
    figure.align_ylabels()
    entries = {}
    for look in scheme_labels(summary["scheme"]).values():
        style = {"color": look.colour, "marker": look.marker, "linestyle": "", "markersize": 5.5}
        entries[look.title] = Line2D([], [], **style)
    for kernel in ordered(summary["kernel"], KERNELS):
        words, style = filling(kernel, "0.4")
        key = Line2D([], [], color="0.4", marker="o", linestyle="", **style)
        entries[f"{label(kernel).name} ({words})"] = key
    shared_legend(figure, entries, handlelength=1.4)
    return figure


run_script(lambda job: save(draw(pd.read_csv(job.input.summary)), *job.output), globals())
