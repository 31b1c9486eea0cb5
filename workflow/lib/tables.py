"""Cells of a study: reading, looking up, rounding, the best of several.

A *cell* is one dataset x scheme x kernel. A summary and the published table are both read into
``{(dataset, scheme, kernel): {column: text}}``, so that one function serves either. Values stay the text they
were written as; a number that is not there is None.
"""

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib.labels import label

Key = tuple[str, str, str]
Cells = dict[Key, dict[str, str]]
Record = dict[str, str]

CELL = ("dataset", "scheme", "kernel")


def read_rows(path: Path, *columns: str) -> list[Record]:
    """Read a table that must have some columns."""
    with Path(path).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("its rows differ in length")
    for column in columns:
        if rows and column not in rows[0]:
            raise ValueError(f"it has no column {column!r}")
    return rows


def read_cells(path: Path) -> Cells:
    """Read a table with one row per cell."""
    return {(row["dataset"], row["scheme"], row["kernel"]): row for row in read_rows(path, *CELL)}


def as_csv(records: Iterable[Record]) -> str:
    """One line per record, under the first one's keys."""
    records, stream = list(records), io.StringIO()
    if records:
        writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return stream.getvalue()


def number(cells: Cells, key: Key, column: str) -> float | None:
    """Look one number up; None where the cell, the column or a finite value is missing."""
    value = float(cells.get(key, {}).get(column) or "nan")
    return value if math.isfinite(value) else None


def rounded(value: float | None, decimals: int, sign: str = "-") -> str:
    """Round to a fixed number of decimals, never to a negative zero; empty for None."""
    if value is None:
        return ""
    text = f"{value:{sign}.{decimals}f}"
    return text if float(text) else text.replace("-", "+" if sign == "+" else "")


def printed(cells: Cells, key: Key, metric: str, part: str = "mean") -> str:
    """Give a metric's mean or std at its printed precision; empty where it is not there."""
    return rounded(number(cells, key, f"{metric}_{part}"), label(metric).decimals)


def best(cells: Cells, keys: list[Key], metric: str) -> list[Key]:
    """Find the cells whose mean is best at printed precision: several when they tie."""
    means = {key: float(text) for key in keys if (text := printed(cells, key, metric))}
    choose = min if label(metric).better == "lower" else max
    return [key for key, mean in means.items() if mean == choose(means.values())]


def axis(cells: Iterable[Key], *positions: int) -> list[Any]:
    """Distinct values, in order, of one or several parts of the keys: 0 dataset, 1 scheme, 2 kernel."""
    values = [tuple(key[position] for position in positions) for key in cells]
    return list(dict.fromkeys(value if len(positions) > 1 else value[0] for value in values))


def published_speedup(published: Cells, key: Key) -> float | None:
    """Full batch's published seconds over this cell's."""
    dataset, _, kernel = key
    full = number(published, (dataset, "full_batch", kernel), "runtime_s_mean")
    own = number(published, key, "runtime_s_mean")
    return full / own if full and own else None
