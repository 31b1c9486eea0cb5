"""One table of a study's cells, as LaTeX and as CSV.

A table is a list of records whose numbers are already rounded to the digits that are printed. The CSV is that
list; the template lays the same records out. So the two can't disagree.
"""

from typing import Any

from lib.labels import SCORES, label
from lib.latex import write_table
from lib.script import run_script
from lib.tables import Cells, Key, Record, axis, best, number, printed, published_speedup, read_cells, rounded

STUDY_METRICS = ("test_log_likelihood", "test_accuracy", "runtime_s")


def label_of(key: Key, metric: str = "") -> Record:
    """What a record is about."""
    dataset, scheme, kernel = key
    return {"scheme": scheme, "dataset": dataset, "kernel": kernel, "metric": metric}


def study(cells: Cells, published: Cells, keys: list[Key]) -> list[Record]:
    """Mean and std per cell; the best of each dataset and metric is marked.

    The best is chosen over schemes and kernels together, and ties at the printed digits share the mark.
    """
    del published
    records = []
    for metric in STUDY_METRICS:
        groups = [[key for key in keys if key[0] == dataset] for dataset in axis(keys, 0)]
        winners = [winner for group in groups for winner in best(cells, group, metric)]
        records += [
            label_of(key, metric)
            | {
                "mean": printed(cells, key, metric),
                "std": printed(cells, key, metric, "std"),
                "best": "yes" if key in winners else "",
                "missing_seeds": cells.get(key, {}).get("missing_seeds") or "",
            }
            for key in keys
        ]
    return records


def versus_published(cells: Cells, published: Cells, keys: list[Key]) -> list[Record]:
    """Ours beside the published mean: the difference, also in published standard deviations.

    Differences are taken before rounding. The published figures stay in the digits they came in.
    """
    records = []
    for metric in SCORES:
        for key in keys:
            ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
            spread = number(published, key, f"{metric}_std")
            difference = None if ours is None or theirs is None else ours - theirs
            in_stds = None if difference is None or not spread else difference / spread
            records.append(
                label_of(key, metric)
                | {
                    "n_seeds": cells.get(key, {}).get("n_seeds") or "",
                    "ours": printed(cells, key, metric),
                    "published": published.get(key, {}).get(f"{metric}_mean") or "",
                    "difference": rounded(difference, label(metric).decimals, sign="+"),
                    "in_published_stds": rounded(in_stds, 1, sign="+"),
                }
            )
    return records


def speedups(cells: Cells, published: Cells, keys: list[Key]) -> list[Record]:
    """How many times full batch's cost is a scheme's, in gradient evaluations and in seconds."""
    return [
        label_of(key)
        | {
            "gradients": rounded(
                number(cells, key, "speedup_gradients"), label("speedup_gradients").decimals
            ),
            "seconds": rounded(number(cells, key, "speedup_seconds"), label("speedup_seconds").decimals),
            "published": rounded(published_speedup(published, key), label("speedup_seconds").decimals),
        }
        for key in keys
        if key[1] != "full_batch"
    ]


TABLES = {"study": study, "versus_published": versus_published, "speedups": speedups}


def main(job: Any) -> None:
    """Write the table that the rule names."""
    params = job.params
    keys = [(d, s, k) for s in params.schemes for d in params.datasets for k in params.kernels]
    published = read_cells(job.input.published) if params.is_published else {}
    records = TABLES[params.table](read_cells(job.input.summary), published, keys)
    write_table(
        records,
        job.input.template,
        job.output,
        cells={(r["scheme"], r["dataset"], r["kernel"], r["metric"]): r for r in records},
        schemes=list(dict.fromkeys(record["scheme"] for record in records)),
        datasets=list(params.datasets),
        kernels=list(params.kernels),
        metrics=list(dict.fromkeys(record["metric"] for record in records)),
    )


run_script(main, globals())
