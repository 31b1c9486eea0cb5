"""What a table of cells says about the original's findings, as phrases chosen by the data.

The same questions are put to the published table and to a build's own, so that the text can set the
answers side by side without asserting anything that a build can change.
"""

from itertools import product

from cells import (
    DECIMALS,
    NOT_THERE,
    Cells,
    Key,
    best,
    escape,
    inline_math,
    name,
    number,
    printed,
    rounded,
)
from phrases import listed, metric_text, share

Numbers = dict[str, str]


def cell_numbers(cells: Cells, keys: list[Key], metrics: list[str]) -> Numbers:
    """Give mean and std of each cell, and its speed-ups."""
    numbers = {}
    for key, metric in product(keys, metrics):
        label = "/".join([*key, metric])
        if metric.startswith("speedup"):
            numbers[label] = inline_math(rounded(number(cells, key, metric), DECIMALS[metric]))
            continue
        for part, suffix in (("mean", ""), ("std", "_std")):
            value = number(cells, key, f"{metric}_{part}")
            numbers[label + suffix] = metric_text(metric, value)
    return numbers


def verdicts(cells: Cells, keys: list[Key]) -> Numbers:
    """Look at the original's findings in any table of cells, the published one or a build's own."""
    numbers = {}
    for metric in ("test_accuracy", "test_log_likelihood"):
        pairs = _pairs(cells, keys, f"{metric}_mean")
        wins = sum(hmc > ld for ld, hmc in pairs)
        numbers[f"hmc_above_ld/{metric}"] = share(wins, len(pairs), "pairs of scheme and dataset")
        for scheme in dict.fromkeys(key[1] for key in keys):
            numbers[f"highest/{scheme}/{metric}"] = how_often_best(cells, keys, scheme, metric)
        for rival in ("automated", "smooth_data_annealing"):
            numbers[f"linear_above/{rival}/{metric}"] = how_often_above(cells, keys, "linear", rival, metric)
    for dataset in dict.fromkeys(key[0] for key in keys):
        for metric in ("test_accuracy", "test_log_likelihood", "ece", "runtime_s", "gradient_evaluations"):
            numbers[f"best/{dataset}/{metric}"] = best_of(cells, keys, dataset, metric)
    for dataset, scheme, kernel in keys:
        numbers[f"against_full/{dataset}/{scheme}/{kernel}"] = against_full(cells, (dataset, scheme, kernel))
    return numbers


def how_often_best(cells: Cells, keys: list[Key], scheme: str, metric: str) -> str:
    """Count the dataset-kernel pairs in which no scheme has a better mean, at the printed digits."""
    groups = [
        [key for key in keys if (key[0], key[2]) == group]
        for group in dict.fromkeys((key[0], key[2]) for key in keys)
    ]
    there = [
        group for group in groups if any(key[1] == scheme and printed(cells, key, metric) for key in group)
    ]
    wins = sum(any(key[1] == scheme for key in best(cells, group, metric)) for group in there)
    return share(wins, len(there), "pairs of dataset and kernel")


def how_often_above(cells: Cells, keys: list[Key], scheme: str, rival: str, metric: str) -> str:
    """Count the dataset-kernel pairs in which one scheme's mean is above another's."""
    column = f"{metric}_mean"
    values = [
        (number(cells, (dataset, scheme, kernel), column), number(cells, (dataset, rival, kernel), column))
        for dataset, kernel in dict.fromkeys((key[0], key[2]) for key in keys)
    ]
    there = [(own, other) for own, other in values if own is not None and other is not None]
    return share(sum(own > other for own, other in there), len(there), "pairs of dataset and kernel")


def best_of(cells: Cells, keys: list[Key], dataset: str, metric: str) -> str:
    """Name the best cell of a dataset, or all that tie at the printed digits."""
    winners = best(cells, [key for key in keys if key[0] == dataset], metric)
    if not winners:
        return NOT_THERE
    who = listed([f"{name(scheme)} with {name(kernel)}" for _, scheme, kernel in winners])
    unit = {"test_accuracy": r"\,\%", "runtime_s": r"\,s"}.get(metric, "")
    return f"{who} ({metric_text(metric, number(cells, winners[0], f'{metric}_mean'))}{unit})"


def against_full(cells: Cells, key: Key) -> str:
    """Say how far a cell's accuracy is from full batch's with the same kernel, and at what cost."""
    dataset, _, kernel = key
    own = number(cells, key, "test_accuracy_mean")
    full = number(cells, (dataset, "full_batch", kernel), "test_accuracy_mean")
    if own is None or full is None:
        return NOT_THERE
    distance = rounded(abs(own - full), DECIMALS["test_accuracy"])
    if not float(distance):
        return "level with full batch"
    return f"{distance} percentage points {'above' if own > full else 'below'} full batch"


def comparisons(cells: Cells, published: Cells) -> Numbers:
    """Count the cells that lie within two published standard deviations of the published mean."""
    numbers = {}
    for metric in ("test_accuracy", "test_log_likelihood"):
        distances = []
        for key in published:
            ours, theirs, spread = (
                number(cells, key, f"{metric}_mean"),
                number(published, key, f"{metric}_mean"),
                number(published, key, f"{metric}_std"),
            )
            if ours is not None and theirs is not None and spread:
                distances.append(abs(ours - theirs) / spread)
        within = sum(distance <= 2 for distance in distances)
        numbers[f"within_two_published_stds/{metric}"] = share(within, len(distances), "cells")
    return numbers


def missing_runs(cells: Cells) -> str:
    """Say which seeds are missing, as a sentence."""
    found = [
        f"{name(dataset)}, {name(scheme)}, {name(kernel)}: seed {escape(row['missing_seeds'])}"
        for (dataset, scheme, kernel), row in cells.items()
        if row.get("missing_seeds")
    ]
    return f"Runs are missing ({'; '.join(found)})." if found else "No run is missing."


def hmc_over_ld(cells: Cells, keys: list[Key], metric: str) -> list[float]:
    """Divide HMC's mean by LD's wherever both are there."""
    return [hmc / ld for ld, hmc in _pairs(cells, keys, f"{metric}_mean") if ld]


def _pairs(cells: Cells, keys: list[Key], column: str) -> list[tuple[float, float]]:
    """Give LD's and HMC's value wherever both are there."""
    pairs = []
    for dataset, scheme in dict.fromkeys(key[:2] for key in keys):
        ld, hmc = (number(cells, (dataset, scheme, kernel), column) for kernel in ("ld", "hmc"))
        if ld is not None and hmc is not None:
            pairs.append((ld, hmc))
    return pairs
