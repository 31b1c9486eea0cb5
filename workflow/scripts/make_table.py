"""One table of the paper, as LaTeX and as CSV.

A table is a list of records whose numbers are already rounded to the digits that are printed. The CSV is that
list; the template lays the same records out. So the two can't disagree.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from compare_published import NOT_RUN, PASS, check_cell, compare, read_study, tolerance
from lib.labels import SCORES, label
from lib.latex import render
from lib.reference import PRIORS, mean_scores, read_reference, select_study
from lib.script import run_script
from lib.tables import (
    CELL,
    Cells,
    Key,
    Record,
    as_csv,
    axis,
    best,
    number,
    printed,
    published_speedup,
    read_cells,
    rounded,
)

STUDY_METRICS = ("test_log_likelihood", "test_accuracy", "runtime_s")
LAST_EVALUATIONS = 5


def label_of(key: Key, metric: str = "") -> Record:
    """What a record is about."""
    return dict(zip(CELL, key, strict=True)) | {"metric": metric}


def study(files: Any, keys: list[Key]) -> list[Record]:
    """Mean and std per cell; the best of each dataset and metric is marked.

    The best is chosen over schemes and kernels together, and ties at the printed digits share the mark.
    """
    cells, records = read_cells(files.summary), []
    for metric in STUDY_METRICS:
        groups = [[key for key in keys if key[0] == dataset] for dataset in axis(keys, 0)]
        winners = [winner for group in groups for winner in best(cells, group, metric)]
        for key in keys:
            mean, std = (printed(cells, key, metric, part) for part in ("mean", "std"))
            marks = {"best": "yes" if key in winners else ""}
            marks |= {"missing_seeds": cells.get(key, {}).get("missing_seeds") or ""}
            records.append(label_of(key, metric) | {"mean": mean, "std": std} | marks)
    return records


def versus_published(files: Any, keys: list[Key]) -> list[Record]:
    """Ours beside the published mean, with the difference and the tolerance.

    Differences are taken before rounding. The published figures stay in the digits they came in.
    """
    cells, published, records = read_cells(files.summary), read_cells(files.published), []
    for metric in SCORES:
        for key in keys:
            ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
            record = label_of(key, metric) | {"n_seeds": cells.get(key, {}).get("n_seeds") or ""}
            record |= {"ours": printed(cells, key, metric)}
            record |= {"published": published.get(key, {}).get(f"{metric}_mean") or ""}
            record |= {"difference": "", "tolerance": "", "outside": ""}
            if theirs is not None:
                allowed, digits = tolerance(published, key, metric), label(metric).decimals
                record["tolerance"] = rounded(allowed, digits)
                if ours is not None:
                    record["difference"] = rounded(ours - theirs, digits, sign="+")
                    record["outside"] = "yes" if abs(ours - theirs) > allowed else ""
            records.append(record)
    return records


def speedups(files: Any, keys: list[Key]) -> list[Record]:
    """How many times full batch's cost is a scheme's; published seconds where the rule gives that table."""
    cells, published = read_cells(files.summary), read_cells(files.published) if files.published else {}
    digits, records = label("speedup_seconds").decimals, []
    for key in [key for key in keys if key[1] != "full_batch"]:
        ours = {name: number(cells, key, f"speedup_{name}") for name in ("gradients", "seconds")}
        values = ours | {"published": published_speedup(published, key)}
        records.append(label_of(key) | {name: rounded(value, digits) for name, value in values.items()})
    return records


def comparison(files: Any, keys: list[Key]) -> list[Record]:
    """How many cells of each score are within tolerance, and the outcome of every claim."""
    del keys
    checks, records = compare(read_study(Path(files.summary), Path(files.published))), []
    for score in SCORES:
        outcomes = [check.outcome for check in checks if check.what.endswith(f" {score}")]
        n_run = len(outcomes) - outcomes.count(NOT_RUN)
        what, found = f"{label(score).name} within tolerance", f"{outcomes.count(PASS)} of {n_run}"
        left = f"{outcomes.count(NOT_RUN)} not run"
        records.append({"what": what, "found": found, "required": "", "outcome": left})
    return records + [check._asdict() for check in checks if not check.what.endswith(SCORES)]


def ablations(files: Any, keys: list[Key]) -> list[Record]:
    """Per ablation and cell of `constant`: scores, and how many of them are within tolerance.

    The first ablation changes nothing. `baseline` counts its scores in the same cell over the same seeds.
    """
    runs, published, listed = (
        read_reference(files.runs),
        read_cells(files.published),
        read_reference(files.ablations),
    )
    unlisted = set(runs["ablation"]) - set(listed["ablation"])
    if unlisted:
        raise ValueError(f"{files.ablations} does not describe {', '.join(sorted(unlisted))}: add a line")
    main, records = select_study(runs), []
    for name, change, group, prior_scale in listed[["ablation", "change", "group", "prior_scale"]].itertuples(
        index=False
    ):
        own = runs[(runs["ablation"] == name) & (runs["prior_scale"] == prior_scale)] if name else main
        for key in [key for key in keys if key[1] == "constant" and len(rows_of(own, key))]:
            tried = rows_of(own, key)
            scores, baseline = mean_scores(tried), mean_scores(main[main["seed"].isin(tried["seed"])])
            record = {"ablation": name, "change": change, "group": group, "dataset": key[0], "kernel": key[2]}
            record |= {"seeds": " ".join(str(seed) for seed in sorted(tried["seed"]))}
            for score in SCORES:
                record |= {f"{score}_{part}": printed(scores, key, score, part) for part in ("mean", "std")}
            record |= {"within": within_tolerance(scores, published, key)}
            records.append(record | {"baseline": within_tolerance(baseline, published, key)})
    return records


def within_tolerance(cells: Cells, published: Cells, key: Key) -> str:
    """How many scores of a cell are within tolerance of the published ones."""
    return str(sum(check_cell(cells, published, key, score).outcome == PASS for score in SCORES))


def stability(files: Any, keys: list[Key]) -> list[Record]:
    """How far accuracies of `constant` spread over seeds and along a run, and how sharp the loss is.

    The sharpness is the largest eigenvalue of the Hessian of the mean loss; leapfrog with step h is unstable
    on a quadratic where it exceeds ``4 / (h^2 N)``.
    """
    runs, traces, curvature = (read_reference(file) for file in (files.runs, files.traces, files.curvature))
    published, scores, records = read_cells(files.published), mean_scores(select_study(runs)), []
    for key in [key for key in keys if key[1] == "constant"]:
        evaluations = (
            rows_of(select_study(traces), key).sort_values("iteration").groupby("seed")["test_accuracy"]
        )
        last = [run.tail(LAST_EVALUATIONS) for _, run in evaluations]
        record = {"dataset": key[0], "kernel": key[2]}
        record |= {"published_std": printed(published, key, "test_accuracy", "std")}
        record |= {"std": printed(scores, key, "test_accuracy", "std")}
        record |= {"final_range": extremes(pd.Series([run.max() - run.min() for run in last]))}
        for prior in PRIORS:
            found = rows_of(select_study(curvature, prior), key)
            unstable = found["eigenvalue"] > 4 / (found["step_size"] ** 2 * found["n_train"])
            record |= {f"sharpness_{prior}": extremes(found["eigenvalue"])}
            record |= {f"unstable_{prior}": f"{unstable.sum()} of {len(found)}"}
        records.append(record)
    return records


def rows_of(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows of one cell."""
    return table[(table[list(CELL)] == list(key)).all(axis=1)]


def extremes(values: pd.Series) -> str:
    """The smallest and the largest value."""
    return "" if values.empty else f"{values.min():.1f} to {values.max():.1f}"


TABLES = {
    "study": study,
    "versus_published": versus_published,
    "speedups": speedups,
    "comparison": comparison,
    "ablations": ablations,
    "stability": stability,
}


def main(job: Any) -> None:
    """Write the table that the rule names."""
    params = job.params
    keys = [(d, s, k) for s in params.schemes for d in params.datasets for k in params.kernels]
    records = TABLES[params.table](job.input, keys)
    Path(job.output.csv).write_text(as_csv(records))
    cells = {tuple(r[name] for name in (*CELL, "metric")): r for r in records if "metric" in r}
    context = {"records": records, "cells": cells, "datasets": params.datasets, "kernels": params.kernels}
    context |= {"schemes": axis(cells, 1), "metrics": axis(cells, 3), "scores": SCORES, "priors": PRIORS}
    context |= {"published": read_cells(job.input.published) if job.input.published else {}}
    Path(job.output.tex).write_text(render(job.input.template, **context))


run_script(main, globals())
