"""One table of the paper, as LaTeX and as CSV.

A table is a list of records whose numbers are already rounded to the digits that are printed. The CSV is that
list; the template lays the same records out. So the two can't disagree.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from compare_published import NOT_RUN, PASS, check_cell, compare, read_study
from lib.choice import choice
from lib.explanations import explanations
from lib.labels import METRICS, SCORES, label, ordered, scores_of
from lib.latex import render
from lib.published import tolerance
from lib.reference import CHOSE, STUDIES, mean_scores, read_reference, select_study
from lib.script import run_script
from lib.tables import (
    CELL,
    Key,
    Record,
    axis,
    best,
    extremes,
    number,
    printed,
    published_speedup,
    read_cells,
    rounded,
    rows_of,
)

LAST_EVALUATIONS = 5
OWN_TABLES = ("rule", "explanation")


def label_of(key: Key, metric: str = "") -> Record:
    """What a record is about."""
    return dict(zip(CELL, key, strict=True)) | {"metric": metric}


def study_metrics(cells: pd.DataFrame) -> list[str]:
    """Log-likelihood, the other score of each dataset, run time: what a summary has of them."""
    found = set()
    for _, own in cells.groupby("dataset"):
        means = [name for name in own if name.endswith("_mean") and own[name].notna().any()]
        found |= set(scores_of(name.removesuffix("_mean") for name in means))
    others = ordered(found - {"test_log_likelihood"}, METRICS)
    return ["test_log_likelihood", *others, "runtime_s"]


def study(files: Any, keys: list[Key]) -> list[Record]:
    """Mean and std per cell; the best of each dataset and metric is marked.

    The best is chosen over schemes and kernels together, and ties at the printed digits share the mark.
    """
    cells, records = read_cells(files.summary), []
    for metric in study_metrics(cells):
        winners = [
            key for name in axis(keys, 0) for key in best(cells, [k for k in keys if k[0] == name], metric)
        ]
        for key in keys:
            record = label_of(key, metric) | {p: printed(cells, key, metric, p) for p in ("mean", "std")}
            incomplete = key in cells.index and pd.notna(cells.loc[key].get("missing_seeds"))
            marks = {"best": key in winners, "incomplete": incomplete}
            records.append(record | {name: "yes" if marked else "" for name, marked in marks.items()})
    return records


def versus_published(files: Any, keys: list[Key]) -> list[Record]:
    """Ours beside the published mean, with the difference, taken before rounding, and the tolerance."""
    cells, published, records = read_cells(files.summary), read_cells(files.published), []
    for metric in SCORES:
        for key in keys:
            ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
            digits, difference = label(metric).decimals, ours - theirs
            allowed = tolerance(published, key, metric) if key in published.index else float("nan")
            record = label_of(key, metric) | {"n_seeds": rounded(number(cells, key, "n_seeds"), 0)}
            record |= {"ours": rounded(ours, digits), "published": rounded(theirs, digits)}
            record |= {"difference": rounded(difference, digits, sign="+")}
            record |= {"tolerance": rounded(allowed, digits)}
            record |= {"sd": printed(cells, key, metric, "std")}
            record |= {"published_sd": printed(published, key, metric, "std")}
            record |= {"chose": "yes" if key[1] in CHOSE else ""}
            records.append(record | {"outside": "yes" if abs(difference) > allowed else ""})
    return records


def speedups(files: Any, keys: list[Key]) -> list[Record]:
    """How many times full batch's cost is a scheme's; published seconds where the rule gives that table."""
    cells, digits, records = read_cells(files.summary), label("speedup_seconds").decimals, []
    for key in [key for key in keys if key[1] != "full_batch"]:
        values = {name: number(cells, key, f"speedup_{name}") for name in ("gradients", "seconds")}
        if files.published:
            values["published"] = published_speedup(read_cells(files.published), key)
        records.append(label_of(key) | {name: rounded(value, digits) for name, value in values.items()})
    return records


def comparison(files: Any, keys: list[Key]) -> list[Record]:
    """How many cells of each score are within tolerance, and the outcome of every claim."""
    checks, records = compare(read_study(Path(files.summary), Path(files.published))), []
    for score in SCORES:
        outcomes = [check.outcome for check in checks if check.what.endswith(f" {score}")]
        n_missing = outcomes.count(NOT_RUN)
        what = f"{label(score).name} within tolerance"
        found = f"{outcomes.count(PASS)} of {len(outcomes) - n_missing}"
        records.append({"what": what, "found": found, "required": "", "outcome": f"{n_missing} not run"})
    return records + [check._asdict() for check in checks if not check.what.endswith(SCORES)]


def ablations(files: Any, keys: list[Key]) -> list[Record]:
    """Per ablation and cell of `constant`: scores, and how many of them are within tolerance.

    First comes what was published, then the main study, with nothing changed. `baseline` counts its scores in
    the same cell over the same seeds. Runs of the rule and of explanations have tables of their own.
    """
    runs, listed = read_reference(files.runs), read_reference(files.ablations)
    if unlisted := set(runs["ablation"]) - set(listed["ablation"]):
        raise ValueError(f"{files.ablations} does not describe {', '.join(sorted(unlisted))}: add a line")
    main, published, records = select_study(runs), read_cells(files.published), []
    as_published, shown = ("published", "published", "published", ""), ~listed["group"].isin(OWN_TABLES)
    for name, change, group, prior_scale in [as_published, *listed[shown].itertuples(index=False)]:
        own = runs[(runs["ablation"] == name) & (runs["prior_scale"] == prior_scale)] if name else main
        scores = published if name == "published" else mean_scores(own)
        for key in [key for key in keys if key[1] == "constant" and key in scores.index]:
            seeds = rows_of(own, key)["seed"]
            record = {"ablation": name, "change": change, "group": group, "dataset": key[0], "kernel": key[2]}
            record |= {"seeds": " ".join(map(str, sorted(seeds)))}
            for score in SCORES:
                record |= {f"{score}_{part}": printed(scores, key, score, part) for part in ("mean", "std")}
            same_seeds = mean_scores(main[main["seed"].isin(seeds)])
            for count, cells in (("within", scores), ("baseline", same_seeds)):
                outcomes = [check_cell(cells, published, key, score).outcome for score in SCORES]
                record |= {count: str(outcomes.count(PASS))}
            records.append(record)
    return records


def stability(files: Any, keys: list[Key]) -> list[Record]:
    """How far accuracies of `constant` spread over seeds and along a run, and how sharp the loss is.

    The sharpness is the largest eigenvalue of the Hessian of the mean loss; leapfrog with step h is unstable
    on a quadratic where it exceeds ``4 / (h^2 N)``.
    """
    runs, traces, curvature = (read_reference(file) for file in (files.runs, files.traces, files.curvature))
    published, scores, records = read_cells(files.published), mean_scores(select_study(runs)), []
    for key in [key for key in keys if key[1] == "constant"]:
        evaluations = rows_of(select_study(traces), key).sort_values("iteration").groupby("seed")
        last = evaluations.tail(LAST_EVALUATIONS).groupby("seed")["test_accuracy"]
        record = {"dataset": key[0], "kernel": key[2], "final_range": extremes(last.max() - last.min(), 1)}
        for name, cells in (("published_std", published), ("std", scores)):
            record |= {name: printed(cells, key, "test_accuracy", "std")}
        for name, made in STUDIES.items():
            found = rows_of(select_study(curvature, made), key)
            unstable = found["eigenvalue"] > 4 / (found["step_size"] ** 2 * found["n_train"])
            record |= {f"sharpness_{name}": extremes(found["eigenvalue"], 1)}
            record |= {f"unstable_{name}": f"{unstable.sum()} of {len(found)}"}
        records.append(record)
    return records


OF_STUDY = (study, versus_published, speedups, comparison)
OF_REFERENCE = (ablations, stability, choice, explanations)
TABLES = {table.__name__: table for table in (*OF_STUDY, *OF_REFERENCE)}


def main(job: Any) -> None:
    """Write the table that the rule names."""
    keys = axis([tuple(run[name] for name in CELL) for run in job.params.runs], 0, 1, 2)
    keys = keys or list(read_cells(job.input.published).index)
    records = TABLES[job.wildcards.table](job.input, keys)
    pd.DataFrame(records).to_csv(job.output.csv, index=False)
    cells = {tuple(r[name] for name in (*CELL, "metric")): r for r in records if "metric" in r}
    context = {"records": records, "cells": cells, "datasets": axis(keys, 0), "kernels": axis(keys, 2)}
    context |= {"schemes": axis(cells, 1), "metrics": axis(cells, 3), "scores": SCORES, "studies": STUDIES}
    Path(job.output.tex).write_text(render(job.input.template, **context))


run_script(main, globals())
