"""Cells of a study: reading, looking up, rounding, the best of several.

A *cell* is one dataset x scheme x kernel. A summary and the published table are both read into a table with
one row per cell, so that one function serves either. A number that is not there is NaN, printed as nothing.
"""

import math
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from lib.labels import label

CELL = ["dataset", "scheme", "kernel"]
Key = tuple[str, str, str]
Record = dict[str, str]


def read_cells(path: Path, *more: str) -> pd.DataFrame:
    """Read a table with one row per cell, or per cell and `more`."""
    try:
        return pd.read_csv(path, dtype={"missing_seeds": str}).set_index([*CELL, *more])
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is not a table of cells: {error}") from error


def rows_of(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows of one cell."""
    return table[(table[CELL] == list(key)).all(axis=1)]


def number(cells: pd.DataFrame, key: Key, column: str) -> float:
    """Look one number up; NaN where the cell, the column or the value is missing."""
    return float(cells[column].get(key, math.nan)) if column in cells else math.nan


def rounded(value: float, decimals: int, sign: str = "-") -> str:
    """Round to a fixed number of decimals, never to a negative zero; empty for NaN."""
    if math.isnan(value):
        return ""
    text = f"{value:{sign}.{decimals}f}"
    return text if float(text) else text.replace("-", "+" if sign == "+" else "")


def printed(cells: pd.DataFrame, key: Key, metric: str, part: str = "mean") -> str:
    """Give a metric's mean or std at its printed precision; empty where it is not there."""
    return rounded(number(cells, key, f"{metric}_{part}"), label(metric).decimals)


def best(cells: pd.DataFrame, keys: Iterable[Key], metric: str) -> list[Key]:
    """Find the cells whose mean is best at printed precision: several when they tie."""
    means = {key: float(text) for key in keys if (text := printed(cells, key, metric))}
    choose = min if label(metric).better == "lower" else max
    return [key for key, mean in means.items() if mean == choose(means.values())]


def axis(keys: Iterable[tuple[str, ...]], *places: int) -> list[Any]:
    """Distinct values, in order, of one or several parts of the keys: 0 dataset, 1 scheme, 2 kernel."""
    return list(dict.fromkeys(map(itemgetter(*places), keys)))


def extremes(values: pd.Series, decimals: int) -> str:
    """The smallest and the largest value."""
    return f"{values.min():.{decimals}f} to {values.max():.{decimals}f}"


def published_speedup(published: pd.DataFrame, key: Key) -> float:
    """Full batch's published seconds over this cell's."""
    full = number(published, (key[0], "full_batch", key[2]), "runtime_s_mean")
    return full / number(published, key, "runtime_s_mean")
