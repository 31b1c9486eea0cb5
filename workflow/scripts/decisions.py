"""The table of decisions: what each choice that was left open does to the scores of `constant`."""

from pathlib import Path
from typing import Any

import pandas as pd
from cells import DECIMALS, Cells, number, read_cells, render, rounded
from variants import VARIANTS

from smcda._io import write_text

METRICS = ("test_accuracy", "test_log_likelihood")
Row = dict[tuple[str, str, str], str]


def published_row(published: Cells, columns: list[tuple[str, str, str]]) -> Row:
    """What there is to be fitted: the published scores of `constant`."""
    return {
        (dataset, kernel, metric): rounded(
            number(published, (dataset, "constant", kernel), f"{metric}_mean"), DECIMALS[metric]
        )
        for dataset, kernel, metric in columns
    }


def variant_rows(decisions: pd.DataFrame) -> dict[str, Row]:
    """One row a variant that was tried, in the order of `VARIANTS`: mean, and spread if there is one."""
    rows: dict[str, Row] = {}
    for name in VARIANTS:
        for tried in decisions[decisions["variant"] == name].to_dict("records"):
            for metric in METRICS:
                mean, spread = (tried[f"{metric}_{part}"] for part in ("mean", "std"))
                text = rounded(mean, DECIMALS[metric])
                if pd.notna(spread):
                    text += f" \\pm {rounded(spread, DECIMALS[metric])}"
                key = (str(tried["dataset"]), str(tried["kernel"]), metric)
                rows.setdefault(name, {})[key] = text
    return rows


def as_latex(decisions: pd.DataFrame, published: Cells, template: Path) -> str:
    """Lay the rows out, the published one first."""
    datasets = list(dict.fromkeys(key[0] for key in published))
    kernels = list(dict.fromkeys(key[2] for key in published))
    columns = [(d, k, m) for d in datasets for k in kernels for m in METRICS]
    rows = {"published": published_row(published, columns)}
    rows |= {VARIANTS[name].what: row for name, row in variant_rows(decisions).items()}
    return render(template, rows=rows, datasets=datasets, kernels=kernels, columns=columns)


def main(job: Any) -> None:
    """Write the table."""
    published = read_cells(job.input.published)
    latex = as_latex(pd.read_csv(job.input.decisions), published, Path(job.input.template))
    write_text(Path(job.output.tex), latex)


if "snakemake" in globals():
    main(globals()["snakemake"])
