"""The report's first page: what the study's own results and the reference data say, in a few lines."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from compare_published import FAIL, PASS
from lib.claims import Study, hmc_above_ld
from lib.labels import SCORES, label, scores_of
from lib.pages import fill, lay_out, page
from lib.script import run_script
from lib.tables import Key, axis, best, number, printed, read_cells, rounded

SIZES = {"particles": "particles", "iterations": "iterations", "n_train": "training examples"}


def span(values: Iterable[float], decimals: int = 0) -> str:
    """The smallest and the largest of some numbers, once if they are printed alike; a dash for none."""
    known = pd.Series(list(values), dtype=float).dropna()
    ends = (rounded(end, decimals) for end in (known.min(), known.max()))
    return " to ".join(dict.fromkeys(ends)) or "–"


def size(runs: pd.DataFrame) -> str:
    """How much was run."""
    counts = {name: runs[name].nunique() for name in ("dataset", "scheme", "kernel", "seed")}
    words = [f"{count} {name}{'s' * (count > 1)}" for name, count in counts.items()]
    words += [f"{span(runs[column])} {word}" for column, word in SIZES.items()]
    return f"{len(runs)} runs: {', '.join(words)}"


def headline(cells: pd.DataFrame, dataset: str) -> str:
    """The score that a dataset is judged by."""
    means = cells.loc[[dataset]].filter(like="_mean").dropna(axis="columns", how="all")
    return scores_of(column.removesuffix("_mean") for column in means)[0]


def best_scores(cells: pd.DataFrame, dataset: str) -> dict[str, Any]:
    """The best schemes of a dataset, kernel by kernel."""
    metric, found = headline(cells, dataset), []
    for kernel in axis(cells.index, 2):
        keys = best(cells, [key for key in cells.index if key[::2] == (dataset, kernel)], metric)
        schemes = " and ".join(label(key[1]).name for key in keys)
        score = printed(cells, keys[0], metric)
        found.append({"kernel": label(kernel).name, "score": score, "schemes": schemes})
    return {"dataset": label(dataset).name, "metric": label(metric).name, "cells": found}


def orders(study: Study) -> list[dict[str, Any]]:
    """In how many pairs of cells HMC is clearly above LD, score by score."""
    claims = [(score, hmc_above_ld(study, score, score)) for score in SCORES if score in study.runs]
    return [
        {"metric": label(score).name, "n_true": sum(c.holds), "n": len(c.holds), "n_open": c.n_open}
        for score, c in claims
        if c.holds or c.n_open
    ]


def against_full_batch(cells: pd.DataFrame) -> str:
    """A row per scheme: how many times fewer gradients it takes, and its scores minus the full batch's."""
    keys, rows = list(cells.index), []
    metrics = dict.fromkeys(headline(cells, dataset) for dataset in axis(keys, 0))

    def more(key: Key, metric: str) -> float:
        full_batch = (key[0], "full_batch", key[2])
        return number(cells, key, f"{metric}_mean") - number(cells, full_batch, f"{metric}_mean")

    for scheme in [scheme for scheme in axis(keys, 1) if scheme != "full_batch"]:
        own = [key for key in keys if key[1] == scheme]
        row = {"scheme": label(scheme).title}
        row["gradients, times fewer"] = span((number(cells, key, "speedup_gradients") for key in own), 1)
        for metric in metrics:
            row[label(metric).name] = span((more(key, metric) for key in own), label(metric).decimals)
        rows.append(row)
    return lay_out(pd.DataFrame(rows), 1) if rows and "full_batch" in axis(keys, 1) else ""


def reference(comparison: pd.DataFrame) -> dict[str, Any]:
    """How far the runs at full data agree with the published table."""
    claims = comparison[comparison["required"] != ""]
    return {
        "cells": comparison[comparison["required"] == ""].to_dict("records"),
        "n": len(claims),
        "n_pass": (claims["outcome"] == PASS).sum(),
        "failed": claims.loc[claims["outcome"] == FAIL, "what"].tolist(),
    }


def main(job: Any) -> None:
    """Write the page."""
    cells, runs = read_cells(job.input.summary), read_cells(job.input.runs, "seed")
    body = fill(
        "headlines",
        size=size(runs.reset_index()),
        best=[best_scores(cells, dataset) for dataset in axis(cells.index, 0)],
        orders=orders(Study(cells, cells, runs)),
        cheaper=against_full_batch(cells),
        reference=reference(pd.read_csv(job.input.comparison, keep_default_na=False)),
    )
    source = f"From {job.input.summary}, {job.input.runs} and {job.input.comparison}"
    Path(job.output.html).write_text(page(body, Path(job.input.caption), source), encoding="utf-8")


run_script(main, globals())
