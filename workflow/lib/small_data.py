"""The table of the small-data study, one row per run, and what follows from it.

A prior scale is chosen without test data: for our sampler by the evidence, for a baseline by the validation
split that chooses its other settings too. What was run for a choice counts as its search.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from lib.small_grid import Cell
from smcda.config import ADAPTIVE, HIERARCHICAL
from smcda.runs.diagnostics import acceptance_rate, drift

KEY = list(Cell._fields)
GROUP = ["dataset", "n_train", "method", "particles", "seed"]
SCORES = ["test_accuracy", "test_log_likelihood", "ece", "brier", "ood_auroc", "ood_auroc_mutual_information"]
EVIDENCE = ["log_evidence", "log_evidence_error"]
COST = ["gradient_evaluations", "search_gradient_evaluations", "runtime_s", "search_s"]
HEALTH = ["acceptance", "min_ess_share", "drift", "n_moves", "unique_ancestors", "diagnostics"]
MADE_BY = ["n_test", "network", "scheme", "kernel", "iterations", "validation_log_likelihood", "device"]
MADE_BY += [
    "gradients",
    "resumed",
    "smcda_version",
    "jax_version",
    "flax_version",
    "python",
    "machine",
    "commit",
]
COLUMNS = [*KEY, *SCORES, *EVIDENCE, *COST, *HEALTH, *MADE_BY]

EVIDENCE_CHOSEN, HIERARCHICAL_PRIOR = "smc_evidence", "smc_hierarchical"
TOTAL = "all_gradient_evaluations"
"""Those of a run and of the search that chose its settings."""


def row_of(method: str, file: Path) -> dict[str, Any]:
    """One row from a run's metrics.json and the trace beside it."""
    metrics = json.loads(file.read_text())
    trace = pd.read_csv(file.with_name("trace.csv"))
    versions = {f"{name}_version": value for name, value in metrics.get("versions", {}).items()}
    prior = metrics.get("prior_scale")
    own = {
        "method": method,
        "prior_scale": "" if prior is None else f"{prior:g}" if isinstance(prior, float) else str(prior),
        "network": metrics.get("model"),
        "ood_auroc": metrics.get("ood_auroc_entropy"),
        "diagnostics": " ".join(metrics["diagnostics"]),
        "validation_log_likelihood": _validation(metrics),
    }
    known = versions | metrics | _health(trace, metrics["particles"]) | own
    return {name: known.get(name) for name in COLUMNS}


def _validation(metrics: dict[str, Any]) -> float | None:
    """The best score of a baseline's search."""
    scores = [each["validation_log_likelihood"] for each in metrics.get("search", [])]
    return max((score for score in scores if score is not None), default=None)


def _health(trace: pd.DataFrame, n_particles: int) -> dict[str, Any]:
    """Whether the weights are alive, as far as a method has weights."""
    if "ess" not in trace:
        return {}
    found: dict[str, Any] = {
        "min_ess_share": float(trace["ess"].min()) / n_particles,
        "unique_ancestors": int(trace["unique_ancestors"].iloc[-1]),
    }
    if "acceptance" in trace:
        columns = {name: trace[name].to_numpy() for name in trace}
        drifted = drift(columns)
        found |= {"acceptance": acceptance_rate(columns), "n_moves": len(trace)}
        found |= {"drift": None if drifted is None else drifted[0]}
    return found


def read_small_data(file: Path) -> pd.DataFrame:
    """Read the table; a prior scale is text, empty where a method has no prior."""
    text = dict.fromkeys(("prior_scale", "diagnostics", "commit", "machine", "python"), str)
    table = pd.read_csv(file, dtype=text)
    return table.fillna({"prior_scale": "", "diagnostics": ""})


def choose_priors(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per dataset, size, method, particles and seed: that of the chosen prior scale.

    A fixed scale of the adaptive sampler is chosen by its log evidence and called `smc_evidence`, where at
    least two were tried; one whose evidence was withheld can't be chosen. Its learnt scales are a method of
    their own, `smc_hierarchical`. `n_tried` counts the scales; all of them count as cost.
    """
    runs = runs.assign(**{name: runs[name].astype(float) for name in EVIDENCE})
    is_ours, learnt = runs["scheme"] == ADAPTIVE, runs["prior_scale"] == HIERARCHICAL
    runs = runs.assign(by_evidence=is_ours & ~learnt)
    runs[TOTAL] = runs["gradient_evaluations"] + runs["search_gradient_evaluations"].fillna(0)
    rows = []
    for _, group in runs[is_ours & learnt].groupby(GROUP, sort=False):
        rows += [row | {"method": HIERARCHICAL_PRIOR} for row in group.to_dict("records")]
    for _, group in runs[~(is_ours & learnt)].groupby([*GROUP, "by_evidence"], sort=False):
        ours = group["by_evidence"].iloc[0]
        scores = group["log_evidence" if ours else "validation_log_likelihood"].astype(float)
        if ours and (len(group) < 2 or scores.isna().all()):
            continue
        if len(group) > 1 and scores.isna().all():
            continue
        chosen = group.loc[scores.idxmax() if len(group) > 1 else group.index[0]].to_dict()
        chosen |= {"method": EVIDENCE_CHOSEN} if ours else {}
        rows.append(chosen | {TOTAL: group[TOTAL].sum()})
        rows[-1] |= {"n_tried": len(group), "n_withheld": int(scores.isna().sum())}
    extra = [TOTAL, "n_tried", "n_withheld"]
    return pd.DataFrame(rows, columns=[*runs.columns.drop("by_evidence"), *extra[1:]])


def mean_over_seeds(chosen: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of scores and cost, one row per dataset, size, method and particles."""
    keys, numbers = GROUP[:-1], [*SCORES, TOTAL]
    grouped = chosen.groupby(keys, sort=False)
    found = grouped[numbers].agg(["mean", "std"])
    found.columns = [f"{name}_{part}" for name, part in found.columns]
    found["n_seeds"] = grouped["seed"].nunique()
    found["prior_scales"] = grouped["prior_scale"].agg(lambda scales: " ".join(dict.fromkeys(scales)))
    return found.reset_index()
