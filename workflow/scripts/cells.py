r"""What the tables and the numbers of the paper share: cells, rounding and LaTeX-safe text.

A *cell* is one dataset x scheme x kernel. The study's summary and the published table are both read
into ``{(dataset, scheme, kernel): {column: text}}``, so that one function can look at either. A number
that is not there is None, and is printed as ``n/a``.
"""

import csv
import math
from pathlib import Path
from typing import Any

import jinja2

Key = tuple[str, str, str]
Cells = dict[Key, dict[str, str]]

NAMES = {
    "mnist": "MNIST",
    "fashion_mnist": "FashionMNIST",
    "ld": "LD",
    "hmc": "HMC",
    "constant": "constant",
    "full_batch": "full batch",
    "constant_to_refine": "constant-to-refine",
    "linear": "linear",
    "automated": "automated",
    "smooth_data_annealing": "smooth data annealing",
    "test_log_likelihood": "test log-likelihood",
    "test_accuracy": r"test accuracy (\%)",
    "runtime_s": "run time (s)",
}
SHORT_NAMES = {"smooth_data_annealing": "SDA"}
DECIMALS = {
    "test_log_likelihood": 3,
    "test_accuracy": 2,
    "ece": 3,
    "brier": 3,
    "predictive_entropy": 3,
    "disagreement": 3,
    "runtime_s": 2,
    "compile_s": 2,
    "evaluation_s": 2,
    "gradient_evaluations": 0,
    "speedup_seconds": 2,
    "speedup_gradients": 2,
}
LESS_IS_BETTER = {"ece", "brier", "runtime_s", "gradient_evaluations"}
NOT_THERE = "n/a"

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def read_rows(path: Path, *columns: str) -> list[dict[str, str]]:
    """Read a table that must have some columns; every value stays the text it was written as."""
    with Path(path).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("its rows are not of one length")
    for column in columns:
        if rows and column not in rows[0]:
            raise ValueError(f"it has no column {column!r}")
    return rows


def read_cells(path: Path) -> Cells:
    """Read a table with a row a cell."""
    rows = read_rows(path, "dataset", "scheme", "kernel")
    return {(row["dataset"], row["scheme"], row["kernel"]): row for row in rows}


def number(cells: Cells, key: Key, column: str) -> float | None:
    """Look one number up; None where the cell, the column or a finite value is missing."""
    text = cells.get(key, {}).get(column) or "nan"
    value = float(text)
    return value if math.isfinite(value) else None


def rounded(value: float | None, decimals: int, sign: str = "-") -> str:
    """Round to a fixed number of decimals, never to a negative zero; empty for None."""
    if value is None:
        return ""
    text = f"{value:{sign}.{decimals}f}"
    return text if float(text) else text.replace("-", "+" if sign == "+" else "")


def printed(cells: Cells, key: Key, metric: str, part: str = "mean") -> str:
    """Give a metric's mean or std at its printed precision; empty where it is not there."""
    return rounded(number(cells, key, f"{metric}_{part}"), DECIMALS[metric])


def best(cells: Cells, keys: list[Key], metric: str) -> list[Key]:
    """Find the cells whose mean is best at printed precision: several when they tie."""
    means = {key: float(text) for key in keys if (text := printed(cells, key, metric))}
    if not means:
        return []
    top = min(means.values()) if metric in LESS_IS_BETTER else max(means.values())
    return [key for key, mean in means.items() if mean == top]


def published_speedup(published: Cells, key: Key) -> float | None:
    """Full batch's published seconds over this cell's."""
    dataset, _, kernel = key
    full = number(published, (dataset, "full_batch", kernel), "runtime_s_mean")
    own = number(published, key, "runtime_s_mean")
    return full / own if full and own else None


def escape(text: Any) -> str:
    """Make any text safe to typeset."""
    return "".join(_SPECIAL.get(character, character) for character in str(text))


def name(identifier: str) -> str:
    """Give the readable, LaTeX-safe name of a dataset, scheme, kernel or metric."""
    return NAMES.get(identifier) or escape(identifier.replace("_", " "))


def capitalised(identifier: str) -> str:
    """Give the name as it begins a row or a column of a table, short where the name is long."""
    text = SHORT_NAMES.get(identifier) or name(identifier)
    return text[:1].upper() + text[1:]


def inline_math(text: str) -> str:
    """Typeset a number so that its minus is a minus, in text and in formulas."""
    return f"\\ensuremath{{{text}}}" if text else NOT_THERE


def render(template: Path, **context: Any) -> str:
    r"""Fill a template whose delimiters are ``\VAR{...}`` and ``\BLOCK{...}``."""
    environment = jinja2.Environment(
        block_start_string="\\BLOCK{",
        block_end_string="}",
        variable_start_string="\\VAR{",
        variable_end_string="}",
        comment_start_string="\\#{",
        comment_end_string="}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    environment.filters |= {"name": name, "capitalised": capitalised, "number": inline_math}
    return environment.from_string(Path(template).read_text(encoding="utf-8")).render(**context)
