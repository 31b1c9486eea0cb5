"""Panels by dataset: as many side by side as the page holds, apart where they can't share an axis.

A *block* is a row of datasets whose panels share axes. Datasets whose runs are scored differently, such as by
accuracy and by RMSE, stand in blocks of their own.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure, FigureBase

from lib.labels import scores_of
from lib.style import COLUMN, PAGE, grid

MOST_PANELS = 4
"""Side by side, on a page."""

EDGES = 0.6
"""Inches of a block that are not panels."""


class Column(NamedTuple):
    """What one column of panels shows."""

    dataset: str
    title: str
    rows: pd.DataFrame
    scores: list[str]


def scores_in(rows: pd.DataFrame, suffix: str = "") -> list[str]:
    """The scores that a dataset's rows have, by the names of their columns without `suffix`."""
    filled = [name for name in rows.columns if name.endswith(suffix) and rows[name].notna().any()]
    return scores_of(name.removesuffix(suffix) for name in filled)


def blocks_of(columns: list[Column], key: Callable[[Column], Hashable]) -> list[list[Column]]:
    """Columns that have a key in common together, as many as fit side by side."""
    groups: dict[Hashable, list[Column]] = {}
    for column in columns:
        groups.setdefault(key(column), []).append(column)
    return [
        group[first : first + MOST_PANELS]
        for group in groups.values()
        for first in range(0, len(group), MOST_PANELS)
    ]


def block_grid(
    sizes: list[tuple[int, int]], row_height: float, **options: Any
) -> tuple[Figure, list[tuple[FigureBase, np.ndarray]]]:
    """A figure with one block below the other, each with its part of the figure and its panels.

    `sizes` are rows and columns of each block; all panels are equally wide.
    """
    n_columns = max(columns for _, columns in sizes)
    if len(sizes) == 1:
        figure, axes = grid(sizes[0][0], n_columns, row_height, **options)
        return figure, [(figure, axes)]
    heights = [rows * row_height + EDGES for rows, _ in sizes]
    figure = Figure(figsize=(PAGE if n_columns > 1 else COLUMN, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(sizes), 1, height_ratios=heights)
    blocks = []
    for part, (n_rows, n_own) in zip(parts, sizes, strict=True):
        axes = part.subplots(n_rows, n_columns, squeeze=False, **options)
        for panel in axes[:, n_own:].flat:
            panel.remove()
        blocks.append((part, axes[:, :n_own]))
    return figure, blocks
