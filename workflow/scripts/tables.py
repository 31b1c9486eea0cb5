"""The paper's tables, each as LaTeX and as CSV.

A table is a list of records whose numbers are already rounded to the digits that are printed. The CSV
is that list; the template lays the same records out. So the two can't disagree.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cells import DECIMALS, Cells, Key, best, number, printed, published_speedup, read_cells, render, rounded

from smcda._io import write_text

Record = dict[str, str]


class Order(NamedTuple):
    """What the study is made of, in the order of rows and columns."""

    schemes: list[str]
    datasets: list[str]
    kernels: list[str]

    def cells(self) -> list[Key]:
        """Every cell of the study, row by row."""
        return [(d, s, k) for s in self.schemes for d in self.datasets for k in self.kernels]


def study(cells: Cells, published: Cells, order: Order) -> list[Record]:
    """Lay the study out as the original does: mean and std, the best of each dataset and metric marked.

    The best is chosen over schemes and kernels together, and ties at the printed digits share the mark.
    """
    del published
    records = []
    for metric in METRICS["study"]:
        winners = [
            winner
            for dataset in order.datasets
            for winner in best(cells, [key for key in order.cells() if key[0] == dataset], metric)
        ]
        records += [
            _label(key, metric)
            | {
                "mean": printed(cells, key, metric),
                "std": printed(cells, key, metric, "std"),
                "best": "yes" if key in winners else "",
                "missing_seeds": cells.get(key, {}).get("missing_seeds") or "",
            }
            for key in order.cells()
        ]
    return records


def versus_published(cells: Cells, published: Cells, order: Order) -> list[Record]:
    """Set ours beside the published mean: the difference, also in published standard deviations.

    Differences are taken before rounding. The published figures stay in the digits they came in.
    """
    records = []
    for metric in METRICS["versus_published"]:
        for key in order.cells():
            ours, theirs = number(cells, key, f"{metric}_mean"), number(published, key, f"{metric}_mean")
            spread = number(published, key, f"{metric}_std")
            difference = None if ours is None or theirs is None else ours - theirs
            in_stds = None if difference is None or not spread else difference / spread
            records.append(
                _label(key, metric)
                | {
                    "ours": printed(cells, key, metric),
                    "published": published.get(key, {}).get(f"{metric}_mean") or "",
                    "difference": rounded(difference, DECIMALS[metric], sign="+"),
                    "in_published_stds": rounded(in_stds, 1, sign="+"),
                }
            )
    return records


def speedups(cells: Cells, published: Cells, order: Order) -> list[Record]:
    """Say how many times full batch's cost is a scheme's, in seconds and in gradient evaluations."""
    return [
        _label(key)
        | {
            "seconds": rounded(number(cells, key, "speedup_seconds"), DECIMALS["speedup_seconds"]),
            "gradients": rounded(number(cells, key, "speedup_gradients"), DECIMALS["speedup_gradients"]),
            "published_seconds": rounded(published_speedup(published, key), DECIMALS["speedup_seconds"]),
        }
        for key in order.cells()
        if key[1] != "full_batch"
    ]


TABLES: dict[str, Callable[[Cells, Cells, Order], list[Record]]] = {
    "study": study,
    "versus_published": versus_published,
    "speedups": speedups,
}
METRICS = {
    "study": ["test_log_likelihood", "test_accuracy", "runtime_s"],
    "versus_published": ["test_log_likelihood", "test_accuracy"],
    "speedups": [""],
}


def as_latex(table: str, records: list[Record], order: Order, template: Path, scale: str) -> str:
    """Let the template lay the records out; it finds one by scheme, dataset, kernel and metric."""
    found = {(r["scheme"], r["dataset"], r["kernel"], r.get("metric", "")): r for r in records}
    schemes = [scheme for scheme in order.schemes if any(r["scheme"] == scheme for r in records)]
    context = order._asdict() | {"schemes": schemes, "metrics": METRICS[table], "scale": scale}
    return render(template, records=found, **context)


def as_csv(records: list[Record]) -> str:
    """Write one line a record."""
    stream = io.StringIO()
    if records:
        writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return stream.getvalue()


def _label(key: Key, metric: str | None = None) -> Record:
    dataset, scheme, kernel = key
    label = {"scheme": scheme, "dataset": dataset, "kernel": kernel}
    return label if metric is None else label | {"metric": metric}


def main(job: Any) -> None:
    """Write the table that the rule asks for."""
    order = Order(list(job.params.schemes), list(job.params.datasets), list(job.params.kernels))
    cells, published = read_cells(job.input.summary), read_cells(job.input.published)
    records = TABLES[job.params.table](cells, published, order)
    latex = as_latex(job.params.table, records, order, job.input.template, job.params.scale)
    write_text(Path(job.output.tex), latex)
    write_text(Path(job.output.csv), as_csv(records))


if "snakemake" in globals():
    main(globals()["snakemake"])
