"""What the text says about the study at full data that is kept with the project (paper/measured).

measured/settings/<name>                              particles, seeds, runs, machine
measured/<dataset>/<scheme>/<kernel>/<metric>[_std]   a cell of its summary
measured/verdict/...                                  the original's findings, put to that study
measured/verify/...                                   how many cells and claims hold
measured/decision/<dataset>/<variant>/<kernel>/<metric>
measured/decision/<variant>/within                    how many of its scores are within tolerance
measured/decision/<variant>/beside                    the same with nothing changed, in the same cells and
                                                      over the same seeds
measured/fan_in_prior/<dataset>/<scheme>/<kernel>/<metric>[_std]
                                                      a cell of the study with the other prior
measured/fan_in_prior/within, .../beside              how many scores of that study, and of this one, are
                                                      within tolerance in the cells that both have
measured/wander/<dataset>/<kernel>                    how far apart the last accuracies along one run of
                                                      `constant` are, from the calmest run to the wildest
measured/curvature/limit[_3h]                         what leapfrog with h or 3h can bear
measured/curvature/images                             over how many images it was taken
measured/curvature/<dataset>/<kernel>                 what was found along runs, from least to most
measured/curvature/<dataset>/<kernel>/beyond          at how many of the looks it was beyond the limit
measured/fan_in_prior/curvature/<dataset>/<kernel>[/beyond]   the same with the other prior
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd
from cells import NOT_THERE, Cells, Key, escape, number, read_cells
from curvature import IMAGES
from phrases import grouped, listed, metric_text, share, span
from summary import GROUP
from variants import VARIANTS
from verdicts import Numbers, cell_numbers, verdicts
from verify import CLAIMS, FAIL, NOT_RUN, PASS, Check, check_cell, runs_beside, verify

SCORES = ("test_accuracy", "test_log_likelihood")
LAST_LOOKS = 5


def measured_numbers(
    runs: Path,
    summary: Path,
    published: Cells,
    traces: Path | None = None,
    decisions: Path | None = None,
    curvature: Path | None = None,
    fan_in_prior: Path | None = None,
    fan_in_curvature: Path | None = None,
) -> Numbers:
    """Put all keys of the kept study together; what is not there says so."""
    cells, made = read_cells(summary), pd.read_csv(runs)
    numbers = settings(made) | checked(verify(cells, published, runs_beside(summary)))
    numbers |= cell_numbers(cells, list(published), list(SCORES))
    numbers |= {f"verdict/{key}": text for key, text in verdicts(cells, list(published)).items()}
    tried = table(decisions, "dataset", "variant", "kernel")
    numbers |= tried_numbers(tried, list(dict.fromkeys(key[0] for key in published)))
    for name in VARIANTS:
        rows = tried[tried["variant"] == name].to_dict("records")
        numbers[f"decision/{name}/within"] = within(rows, published)
        numbers[f"decision/{name}/beside"] = within([unchanged(made, row) for row in rows], published)
    numbers |= prior_numbers(cells, read_cells(fan_in_prior) if fan_in_prior else {}, published)
    groups = list(dict.fromkeys((dataset, kernel) for dataset, _, kernel in published))
    looks = table(traces, *GROUP, "seed", "iteration", "test_accuracy")
    numbers |= {f"wander/{'/'.join(group)}": wander(looks, *group) for group in groups}
    for prefix, file in (("", curvature), ("fan_in_prior/", fan_in_curvature)):
        found = curvature_numbers(table(file, "dataset", "kernel", "eigenvalue"), groups, made)
        numbers |= {f"{prefix}{key}": text for key, text in found.items()}
    return {f"measured/{key}": text for key, text in numbers.items()}


def table(file: Path | None, *columns: str) -> pd.DataFrame:
    """Read a table that need not be there; it is then empty, with the columns that are asked for."""
    return pd.DataFrame(columns=list(columns)) if file is None else pd.read_csv(file)


def settings(runs: pd.DataFrame) -> Numbers:
    """Say how the study was made; where runs differ, every value is named."""

    def values(name: str) -> str:
        return listed([escape(value) for value in sorted(set(runs[name]))])

    return {
        "settings/particles": values("particles"),
        "settings/seeds": values("seed"),
        "settings/n_runs": grouped(len(runs)),
        "settings/machine": values("machine"),
        "settings/n_train": listed([grouped(n) for n in sorted(set(runs["n_train"]))]),
    }


def checked(checks: list[Check]) -> Numbers:
    """Count the cells within tolerance, and give each claim's outcome in words."""
    numbers = {}
    for metric in SCORES:
        outcomes = [check.outcome for check in checks if check.what.endswith(metric)]
        made = [outcome for outcome in outcomes if outcome != NOT_RUN]
        numbers[f"verify/{metric}"] = share(made.count(PASS), len(made), "cells that were run")
    by_name = {check.what: check for check in checks}
    for what, _ in CLAIMS:
        check = by_name[what]
        words = {PASS: "it holds", FAIL: "it does not hold", NOT_RUN: "it was not run"}[check.outcome]
        found = f" ({check.found.removeprefix('holds ')})" if check.found else ""
        numbers[f"verify/{what}"] = f"{words}{found}"
    return numbers


def tried_numbers(decisions: pd.DataFrame, datasets: list[str]) -> Numbers:
    """Scores of every variant; one that was not tried says so."""
    numbers = {}
    by_key = {(row["dataset"], row["variant"], row["kernel"]): row for row in decisions.to_dict("records")}
    for dataset in datasets:
        for name, variant in VARIANTS.items():
            for kernel in variant.kernels:
                row = by_key.get((dataset, name, kernel), {})
                for metric in SCORES:
                    value = row.get(f"{metric}_mean")
                    text = NOT_THERE if value is None else metric_text(metric, float(value))
                    numbers[f"decision/{dataset}/{name}/{kernel}/{metric}"] = text
    return numbers


def unchanged(runs: pd.DataFrame, row: dict[Hashable, Any]) -> dict[Hashable, Any]:
    """Runs of `constant` in the cell of a variant's row, averaged over its seeds: what to compare it with."""
    cell = (runs[GROUP] == [row["dataset"], "constant", row["kernel"]]).all(axis=1)
    chosen = runs[cell & runs["seed"].isin([int(seed) for seed in str(row["seeds"]).split()])]
    return row | {f"{metric}_mean": chosen[metric].mean() for metric in SCORES}


def within(rows: list[dict[Hashable, Any]], published: Cells) -> str:
    """Say how many scores of some rows of decisions `verify` would pass as cells of `constant`."""
    cells = {(row["dataset"], "constant", row["kernel"]): row for row in rows}
    return scores_within(cells, list(cells), published)


def scores_within(cells: Cells, keys: list[Key], published: Cells) -> str:
    """Say how many scores of some cells are within tolerance."""
    checks = [check_cell(cells, published, key, metric) for key in keys for metric in SCORES]
    return share([check.outcome for check in checks].count(PASS), len(checks), "scores")


def prior_numbers(cells: Cells, other: Cells, published: Cells) -> Numbers:
    """Set the study with the other prior beside this one, in the cells that both have."""
    both = [key for key in published if all(number(c, key, "test_accuracy_mean") for c in (cells, other))]
    numbers = cell_numbers(other, list(published), list(SCORES))
    numbers |= {
        "within": scores_within(other, both, published),
        "beside": scores_within(cells, both, published),
    }
    return {f"fan_in_prior/{key}": text for key, text in numbers.items()}


def wander(looks: pd.DataFrame, dataset: str, kernel: str) -> str:
    """Say how far apart the last accuracies along a run of `constant` are: the calmest, the wildest."""
    chosen = (looks[GROUP] == [dataset, "constant", kernel]).all(axis=1)
    by_seed = looks[chosen].sort_values("iteration").groupby("seed")["test_accuracy"]
    apart = [float(last.max() - last.min()) for _, run in by_seed if len(last := run.tail(LAST_LOOKS)) > 1]
    return span(apart, lambda points: f"{points:.1f}")


def curvature_numbers(followed: pd.DataFrame, groups: list[tuple[str, str]], runs: pd.DataFrame) -> Numbers:
    """Set what leapfrog can bear, ``4 / (h^2 N)``, beside what was found along runs."""
    one = runs.iloc[0]
    limit = 4 / (one["step_size"] ** 2 * one["n_train"])
    numbers = {"curvature/limit": f"{limit:.1f}", "curvature/limit_3h": f"{limit / 9:.1f}"}
    numbers["curvature/images"] = grouped(IMAGES)
    for dataset, kernel in groups:
        chosen = (followed["dataset"] == dataset) & (followed["kernel"] == kernel)
        found = followed.loc[chosen, "eigenvalue"].astype(float)
        key = f"curvature/{dataset}/{kernel}"
        numbers[key] = span(found, lambda value: f"{value:.1f}")
        numbers[f"{key}/beyond"] = share(int((found > limit).sum()), len(found), "looks")
    return numbers
