"""One look for all figures: sizes, axes and legends.

Fonts and lines are set in figures.mplstyle; colours, markers and names are those of `lib.labels`. Legends are
gathered from what the panels hold, so that nothing is named that is not drawn.
"""

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from lib.labels import DATASETS, KERNELS, label, ordered, scheme_labels

matplotlib.use("Agg")
matplotlib.style.use(Path(__file__).with_name("figures.mplstyle"))

COLUMN, PAGE = 3.4, 7.0
"""Widths, in inches, of one column and of the whole page."""

MOST_COLUMNS = 6  # of a legend
MARKERS = 4  # of a line
LineOf = Callable[[pd.DataFrame], pd.DataFrame]
UNITS = {10**9: "billions", 10**6: "millions", 10**3: "thousands", 1: "particle × example"}
TITLE_LENGTH = 22  # of panels side by side


def read_traces(runs: list[dict[str, Any]], files: Iterable[str]) -> pd.DataFrame:
    """All traces in one table, each row with the dataset, scheme, kernel and seed that it belongs to.

    Without `runs`, the rows themselves say it.
    """
    tables = [pd.read_csv(file) for file in files]
    if runs:
        tables = [table.assign(**run) for table, run in zip(tables, runs, strict=True)]
    return pd.concat(tables, ignore_index=True)


def only(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Rows that have these values."""
    chosen = np.logical_and.reduce([table[name] == value for name, value in values.items()])
    return table[chosen]


def grid(n_rows: int, n_columns: int, row_height: float, **options: Any) -> tuple[Figure, np.ndarray]:
    """Panels as wide as one column of text, or as the page where they stand side by side."""
    width = PAGE if n_columns > 1 else COLUMN
    figure = Figure(figsize=(width, n_rows * row_height + 0.6), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def dataset_kernels(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Every dataset and kernel that a table has, and the title of their panel."""
    pairs = product(ordered(table["dataset"], DATASETS), ordered(table["kernel"], KERNELS))
    titles = {(d, k): f"{label(d).name}, {label(k).name}" for d, k in pairs}
    return {
        key: title if len(title) <= TITLE_LENGTH else title.replace(", ", "\n")
        for key, title in titles.items()
    }


def plot_schemes(panel: Axes, table: pd.DataFrame, line_of: LineOf, **options: Any) -> None:
    """One line per scheme, through the columns `x` and `y`, inside a band where `low` and `high` are given.

    Each has a few markers, put where those of lines on top of each other do not coincide.
    """
    looks = scheme_labels(table["scheme"])
    for place, (scheme, look) in enumerate(looks.items()):
        line = line_of(only(table, scheme=scheme))
        if "low" in line:
            panel.fill_between(
                line["x"], line["low"], line["high"], color=look.colour, alpha=0.13, linewidth=0
            )
        every = max(1, len(line) // MARKERS)
        marked = {"marker": look.marker, "markersize": 3.2, "markevery": (place * every // len(looks), every)}
        panel.plot(line["x"], line["y"], **marked, **look.line(), **options)


def plain_log_ticks(axis: Axis, unit: int = 1, at_most: float = 200) -> None:
    """Write ticks as plain numbers: at 1, 2, 5 and 10, or at 1 and 10 where the range is above `at_most`."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < at_most * low else (1,)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value / unit:g}"))
    axis.set_minor_locator(ticker.LogLocator(subs=range(2, 10)))
    axis.set_minor_formatter(ticker.NullFormatter())


def cost_axes(panels: np.ndarray, scores: list[str], costs: pd.Series, width: int) -> None:
    """Label scores (rows) over gradient evaluations, in a unit that keeps numbers short.

    `width` says how many panels fill the page's.
    """
    for panel, score in zip(panels[:, 0], scores, strict=True):
        panel.set_ylabel(label(score).name)
    middle = np.sqrt(costs.min() * costs.max())
    unit = next(unit for unit in UNITS if unit <= max(middle, 1))
    is_narrow = width > 2
    gap = "\n" if is_narrow else " "
    panels[0, 0].set_xscale("log")
    plain_log_ticks(panels[0, 0].xaxis, unit, at_most=100 if is_narrow else 2000)
    for panel in panels[-1]:
        panel.set_xlabel(f"gradient evaluations{gap}({UNITS[unit]})")


def shared_legend(figure: Figure, first: dict[str, Artist] | None = None, **options: Any) -> Legend:
    """Set one legend of all that panels name below them, in as many columns as the figure's width allows."""
    entries = dict(first or {})
    for panel in figure.axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    names = list(entries)
    for n_columns in range(min(MOST_COLUMNS, len(names)), 0, -1):
        # Legends are filled column by column; this order makes them read row by row.
        order = [name for column in range(n_columns) for name in names[column::n_columns]]
        handles = [entries[name] for name in order]
        legend = figure.legend(handles, order, loc="outside lower center", ncols=n_columns, **options)
        if legend.get_window_extent().width <= 0.97 * figure.bbox.width:
            break
        legend.remove()
    return legend


def save(figure: Figure, *paths: str | Path) -> None:
    """Write the figure in the format of each path's suffix; the same figure gives the same bytes."""
    metadata = {"pdf": {"CreationDate": None}, "png": {"Software": None}}
    for path in map(Path, paths):
        figure.savefig(path, dpi=300, metadata=metadata[path.suffix[1:]])
