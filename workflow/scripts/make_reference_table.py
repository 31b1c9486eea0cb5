"""One table of the reference data (paper/reference), as LaTeX and as CSV."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from compare_published import NOT_RUN, PASS, check_cell, compare, read_study
from lib.labels import SCORES, label
from lib.latex import write_table
from lib.reference import ABLATIONS, PRIORS, mean_scores, read_reference, select_ablations, select_study
from lib.script import run_script
from lib.tables import CELL, Cells, Key, Record, axis, printed, read_cells

LAST_EVALUATIONS = 5


def comparison(files: Any) -> list[Record]:
    """How many cells of each score are within tolerance, and the outcome of every claim."""
    checks = compare(read_study(Path(files.summary), Path(files.published)))
    records = []
    for score in SCORES:
        outcomes = [check.outcome for check in checks if check.what.endswith(f" {score}")]
        n_run = len(outcomes) - outcomes.count(NOT_RUN)
        what = f"{label(score).name} within tolerance"
        found = f"{outcomes.count(PASS)} of {n_run} cells, {outcomes.count(NOT_RUN)} not run"
        records.append({"what": what, "found": found, "required": "", "outcome": ""})
    return records + [check._asdict() for check in checks if not check.what.endswith(SCORES)]


def ablations(files: Any) -> list[Record]:
    """Per ablation and cell of `constant`: scores, and how many of them are within tolerance.

    The first is the main study itself, without a name. `baseline` counts the main study's own scores in the
    same cell over the same seeds.
    """
    runs, published = read_reference(files.runs), read_cells(files.published)
    main = select_study(runs)
    main = main[main["scheme"] == "constant"]
    tried = pd.concat([main, select_ablations(runs)])
    records = []
    for (name, *cell), group in tried.groupby(["ablation", *CELL], sort=False):
        key, scores = tuple(cell), mean_scores(group)
        same_seeds = mean_scores(main[main["seed"].isin(group["seed"])])
        record = {"ablation": name, "dataset": key[0], "kernel": key[2]}
        record["seeds"] = " ".join(str(seed) for seed in sorted(group["seed"]))
        for score in SCORES:
            record[score], record[f"{score}_std"] = (printed(scores, key, score, p) for p in ("mean", "std"))
        record["within"] = str(within_tolerance(scores, key, published))
        record["baseline"] = str(within_tolerance(same_seeds, key, published))
        records.append(record)
    return records


def within_tolerance(cells: Cells, key: Key, published: Cells) -> int:
    """How many scores of a cell are within tolerance of the published ones."""
    return sum(check_cell(cells, published, key, score).outcome == PASS for score in SCORES)


def ablation_rows(records: list[Record]) -> list[dict[str, Any]]:
    """The records of each ablation as one row, with its group and its scores within tolerance."""
    rows = []
    for name in dict.fromkeys(record["ablation"] for record in records):
        cells = {(r["dataset"], r["kernel"]): r for r in records if r["ablation"] == name}
        what, group = ABLATIONS.get(name, (label(name).name, "other"))
        counts = {part: sum(int(r[part]) for r in cells.values()) for part in ("within", "baseline")}
        total = len(SCORES) * len(cells)
        rows.append({"what": what, "group": group, "cells": cells, "total": total} | counts)
    return rows


def stability(files: Any) -> list[Record]:
    """How far accuracies of `constant` spread over seeds and along a run, and how sharp the loss is.

    The sharpness is the largest eigenvalue of the Hessian of the mean loss; leapfrog with step h is unstable
    on a quadratic where it exceeds ``4 / (h^2 N)``.
    """
    runs, traces, curvature = (read_reference(file) for file in (files.runs, files.traces, files.curvature))
    published, spread = read_cells(files.published), mean_scores(select_study(runs))
    records = []
    for dataset, kernel in axis(published, 0, 2):
        key = (dataset, "constant", kernel)
        evaluations = rows_of(select_study(traces), key).sort_values("iteration")
        last = [run.tail(LAST_EVALUATIONS) for _, run in evaluations.groupby("seed")["test_accuracy"]]
        record = {"dataset": dataset, "kernel": kernel}
        record["published_std"] = printed(published, key, "test_accuracy", "std")
        record["std"] = printed(spread, key, "test_accuracy", "std")
        record["final_range"] = extremes([run.max() - run.min() for run in last])
        for prior in PRIORS:
            found = rows_of(select_study(curvature, prior), key)
            beyond = found["eigenvalue"] > 4 / (found["step_size"] ** 2 * found["n_train"])
            record[f"sharpness_{prior}"] = extremes(found["eigenvalue"].tolist())
            record[f"beyond_{prior}"] = f"{beyond.sum()} of {len(found)}"
        records.append(record)
    return records


def rows_of(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows of one cell."""
    return table[(table[list(CELL)] == list(key)).all(axis=1)]


def extremes(values: Sequence[float]) -> str:
    """The smallest and the largest of some values."""
    return f"{min(values):.1f} to {max(values):.1f}" if values else ""


TABLES = {"comparison": comparison, "ablations": ablations, "stability": stability}


def main(job: Any) -> None:
    """Write the table that the rule names."""
    records, context = TABLES[job.params.table](job.input), {}
    if job.params.table == "ablations":
        published = read_cells(job.input.published)
        context = {"rows": ablation_rows(records), "published": published, "columns": axis(published, 0, 2)}
    write_table(records, job.input.template, job.output, priors=PRIORS, scores=SCORES, **context)


run_script(main, globals())
