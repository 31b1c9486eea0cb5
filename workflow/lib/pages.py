"""Pages of the report: a figure or a table with its caption, as HTML that needs no other file.

A table is read from the CSV that a rule has written, as text, so that a page shows the digits that the paper
shows. Where the records of a CSV have a `metric`, each metric has columns of its own, as in the paper.
"""

import base64
import html
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from docutils.core import publish_parts

from lib.captions import REPORT, title_of
from lib.labels import METRICS, label
from lib.tables import CELL, rounded

SPREADS = {"mean": "std", "ours": "sd", "published": "published_sd"}
"""Columns of standard deviations, by those of means that they stand beside."""

MARKS: dict[str, tuple[str, Callable[[str], str]]] = {
    "best": ("mean", lambda text: f"<b>{text}</b>"),
    "incomplete": ("mean", lambda text: f"{text}<sup>†</sup>"),
    "outside": ("difference", lambda text: f"<b>{text}</b>"),
    "chose": ("scheme", lambda text: f"{text} (c)"),
}
"""Columns that mark another one where they say yes."""

HEADS = {"n_seeds": "seeds", "n_runs": "runs", "n_train": "training examples", "n_test": "test examples"}
HEADS |= {"n_parameters": "parameters", "what": "", "words": "", "final_range": "range of the last five"}
HEADS |= {"within": "within tolerance", "within_4": "within, J = 4", "within_16": "within, J = 16"}
HEADS |= {"baseline": "within, nothing changed", "std": "sd", "published_std": "sd, published"}
ENDINGS = {"_without": "without it", "_sd_published": "sd, published", "_sd": "sd"}
REPEATS = {"ablation": "change", "group": "change", "explanation": "words"}
"""Columns that repeat another one for programs, and that one."""

RUN = [*CELL, "seed"]
UNPRINTED = re.compile(r"-?\d+\.(0|\d{5,}(e[+-]?\d+)?)")
"""Numbers as a program writes them."""

NUMBERS = r"([-+±.,\d\s]|to|of)*"


def shown(column: str, text: str) -> str:
    """One value: names readable, metrics at their printed precision, other long numbers at four digits."""
    if column in CELL:
        return html.escape(label(text).title)
    if column in METRICS and text:
        return rounded(float(text), METRICS[column].decimals)
    return f"{float(text):.4g}" if UNPRINTED.fullmatch(text) else html.escape(text)


def read_table(file: Path) -> pd.DataFrame:
    """A CSV as it is printed: text, every mean with its standard deviation, marks set, nothing empty."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    repeats = [name for name, other in REPEATS.items() if other in table]
    table = table.loc[:, table.any()].drop(columns=repeats, errors="ignore")
    spreads = SPREADS | {mean: mean.replace("_mean", "_std") for mean in table if mean.endswith("_mean")}
    for name in table:
        table[name] = [shown(re.sub("_(mean|std)$", "", name), text) for text in table[name]]
    for mean, sd in spreads.items():
        if {mean, sd} <= {*table}:
            values = zip(table[mean], table.pop(sd), strict=True)
            table[mean] = [f"{value} ± {spread}" if spread else value for value, spread in values]
    for name, (marked, mark) in MARKS.items():
        if {name, marked} <= {*table}:
            values = zip(table[marked], table.pop(name), strict=True)
            table[marked] = [mark(text) if text and yes == "yes" else text for text, yes in values]
    return table.rename(columns=lambda name: name.removesuffix("_mean"))


def head(name: str) -> str:
    """What a column is called."""
    for ending, words in ENDINGS.items():
        if name.endswith(ending):
            return f"{head(name.removesuffix(ending))}, {words}"
    return html.escape(HEADS.get(name, label(name).name))


def by_metric(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Columns for each metric; where there is one number per cell, for each kernel too."""
    names = [name for name in ("scheme", "dataset", "kernel", "n_seeds") if name in table]
    values = [name for name in table if name not in (*names, "metric")]
    if len(values) == 1:
        names.remove("kernel")
        wide = table.pivot_table(values[0], names, ["metric", "kernel"], aggfunc="first", sort=False)
    else:
        wide = table.pivot_table(values, names, "metric", aggfunc="first", sort=False)
        wide = wide.swaplevel(axis="columns")
        wide = wide[[(metric, value) for metric in table["metric"].unique() for value in values]]
    wide.columns = pd.MultiIndex.from_tuples([(label(metric).title, head(last)) for metric, last in wide])
    wide.index.names = map(head, names)
    return wide.fillna("").reset_index(col_level=1), len(names)


def by_row(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The records as they are; leading columns of words name the rows."""
    words = [not table[name].str.fullmatch(NUMBERS).all() for name in table]
    n_names = 1 if all(words) else words.index(False)
    return table.set_axis(map(head, table), axis="columns"), n_names


def lay_out(table: pd.DataFrame, n_names: int) -> str:
    """A table as HTML. Its first columns name the rows; a name is not repeated below itself."""
    columns = [name if isinstance(name, tuple) else (name,) for name in table]
    levels = [[name[: depth + 1] for name in columns] for depth in range(len(columns[0]))]
    rows, above = [], ()
    for row in table.itertuples(index=False, name=None):
        is_new = [row[: place + 1] != above[: place + 1] for place in range(n_names)]
        names = [name if new else "" for name, new in zip(row, is_new, strict=False)]
        rows.append((names, row[n_names:]))
        above = row
    left = [table.iloc[:, place].str.match("[a-zA-Z]").any() for place in range(len(columns))]
    header = [[(key[-1], len([*group])) for key, group in groupby(level)] for level in levels]
    return fill("table", header=header, rows=rows, left=left)


def table_body(file: Path) -> str:
    """A CSV as HTML. What is the same in all of several single runs stands in a table of its own."""
    if not file.read_text().strip():
        return "<p>This study has no rows for it.</p>"
    table = read_table(file)
    if "metric" in table:
        return lay_out(*by_metric(table))
    if "seed" not in table or len(table) < 2:
        return lay_out(*by_row(table))
    same = [name for name in table if table[name].nunique() == 1 and name not in RUN]
    common = pd.DataFrame({"": map(head, same), "in every run": table[same].iloc[0]})
    return lay_out(*by_row(table.drop(columns=same))) + lay_out(common, 1)


def figure_body(file: Path, title: str) -> str:
    """A picture, embedded."""
    data = base64.b64encode(file.read_bytes()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'


def fill(template: str, **context: Any) -> str:
    """Fill a template of `workflow/report`; text is escaped unless the template says that it is safe."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(REPORT),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{template}.html.j2").render(context)


def page(body: str, caption: Path, source: str) -> str:
    """A whole page: the caption's title, what it is about, the rest of the caption, and from where it is."""
    text = publish_parts(caption.read_text(encoding="utf-8"), writer="html")
    return fill("page", title=title_of(caption), body=body, caption=text["body"], source=source)
