"""Compare a study with the published table: every cell, then every claim.

    python workflow/scripts/compare_published.py results/laptop/reference/summary.csv

A cell passes if its mean over n seeds lies within the tolerance of the published one: three published
standard deviations or the least difference that matters, whichever is larger. A claim is judged on the cells
that are there; where runs.csv lies beside the summary, two cells are compared over the seeds that both have,
so that the luck of a seed is on both sides. What was not run is 'not run' and never passes.
Exits with 0 if everything passed, 1 if something failed, 3 if nothing failed but something was not run.
"""

import argparse
import math
import sys
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib.labels import SCORES, label
from lib.tables import Key, axis, number, published_speedup, read_cells, rounded

PUBLISHED = Path(__file__).resolve().parents[1] / "resources" / "published_table.csv"
POINT = 1.0
NATS = {"mnist": 0.02, "fashion_mnist": 0.03}
"""Differences in accuracy and in log-likelihood that never fail a cell."""

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"


class Check(NamedTuple):
    """One line of the report."""

    what: str
    found: str
    required: str
    outcome: str


class Study(NamedTuple):
    """Means of a study, what they are compared with, and its runs by cell and seed where they are known."""

    cells: pd.DataFrame
    published: pd.DataFrame
    runs: pd.DataFrame | None = None

    def pair(self, a: Key, b: Key, metric: str) -> tuple[float, float] | None:
        """Means of two cells over the seeds that both have; without their runs, the cells' own means."""
        if self.runs is None:
            means = tuple(number(self.cells, key, f"{metric}_mean") for key in (a, b))
        else:
            runs = self.runs[metric].astype(float)
            one, other = (runs[runs.index.droplevel("seed") == key].droplevel([0, 1, 2]) for key in (a, b))
            means = tuple(pd.concat([one, other], axis="columns", join="inner").mean())
        return None if any(map(math.isnan, means)) else means


def read_study(summary: Path, published: Path = PUBLISHED) -> Study:
    """Read a summary, the runs.csv beside it if there is one, and the published table."""
    runs = summary.with_name("runs.csv")
    return Study(
        read_cells(summary), read_cells(published), read_cells(runs, "seed") if runs.is_file() else None
    )


def tolerance(published: pd.DataFrame, key: Key, metric: str) -> float:
    """Three published standard deviations, or the least difference that matters if that is more."""
    least = POINT if metric == "test_accuracy" else NATS[key[0]]
    return max(3 * number(published, key, f"{metric}_std"), least)


def check_cell(cells: pd.DataFrame, published: pd.DataFrame, key: Key, metric: str) -> Check:
    """Compare one mean with the published one."""
    ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
    allowed, digits = tolerance(published, key, metric), label(metric).decimals
    what, required = f"{' '.join(key)} {metric}", f"{rounded(theirs, digits)} +- {rounded(allowed, digits)}"
    if math.isnan(ours):
        return Check(what, "", required, NOT_RUN)
    found = f"{rounded(ours, digits)} ({rounded(ours - theirs, digits, sign='+')})"
    n_seeds = number(cells, key, "n_seeds")
    found += "" if math.isnan(n_seeds) else f" n={n_seeds:.0f}"
    return Check(what, found, required, PASS if abs(ours - theirs) <= allowed else FAIL)


def hmc_above_ld(study: Study, metric: str) -> list[bool]:
    """Whether HMC's mean is above LD's, for every dataset and scheme."""
    cells = axis(study.published.index, 0, 1)
    pairs = [study.pair((*cell, "hmc"), (*cell, "ld"), metric) for cell in cells]
    return [hmc > ld for hmc, ld in filter(None, pairs)]


def same_order(study: Study) -> list[bool]:
    """Whether two schemes stand in the published order of accuracy, wherever that order is clear.

    It is clear when the published means differ by more than both their standard deviations together.
    """
    answers = []
    for a, b in combinations(study.published.index, 2):
        theirs = [number(study.published, key, "test_accuracy_mean") for key in (a, b)]
        spread = sum(number(study.published, key, "test_accuracy_std") for key in (a, b))
        ours = study.pair(a, b, "test_accuracy") if (a[0], a[2]) == (b[0], b[2]) else None
        if ours and abs(theirs[0] - theirs[1]) > spread:
            answers.append((theirs[0] > theirs[1]) == (ours[0] > ours[1]))
    return answers


def close_to_full_batch(study: Study) -> list[bool]:
    """Whether constant-to-refine is within a point of full batch for a fifth of its gradients or less."""
    answers = []
    for dataset, kernel in axis(study.published.index, 0, 2):
        keys = ((dataset, "constant_to_refine", kernel), (dataset, "full_batch", kernel))
        scores, costs = (study.pair(*keys, metric) for metric in ("test_accuracy", "gradient_evaluations"))
        if scores and costs:
            answers.append(abs(scores[0] - scores[1]) <= POINT and 5 * costs[0] <= costs[1])
    return answers


def fast_enough(study: Study, scheme: str) -> list[bool]:
    """Whether full batch takes at least the published multiple of a scheme's seconds."""
    keys = [key for key in study.published.index if key[1] == scheme]
    pairs = [
        (number(study.cells, key, "speedup_seconds"), published_speedup(study.published, key)) for key in keys
    ]
    return [ours >= theirs for ours, theirs in pairs if not math.isnan(ours)]


def compare(study: Study) -> list[Check]:
    """Every cell, then every claim by the comparisons that can be made."""
    cells = [(key, metric) for key in study.published.index for metric in SCORES]
    checks = [check_cell(study.cells, study.published, *cell) for cell in cells]
    everywhere, close = "every dataset and scheme", "1 point, a fifth of the gradients"
    ratio = "the published ratio or more"
    for what, required, holds in (
        ("HMC above LD in accuracy", everywhere, hmc_above_ld(study, "test_accuracy")),
        ("HMC above LD in log-likelihood", everywhere, hmc_above_ld(study, "test_log_likelihood")),
        ("schemes in the published order", "every clear pair", same_order(study)),
        ("constant-to-refine close to full batch, cheaper", close, close_to_full_batch(study)),
        ("full batch / constant-to-refine, seconds", ratio, fast_enough(study, "constant_to_refine")),
        ("full batch / constant, seconds", ratio, fast_enough(study, "constant")),
    ):
        found = f"holds in {sum(holds)} of {len(holds)}" if holds else ""
        outcome = NOT_RUN if not holds else PASS if all(holds) else FAIL
        checks.append(Check(what, found, required, outcome))
    return checks


def report(checks: list[Check]) -> str:
    """Lay the checks out as text, with the count of each outcome at the end."""
    rows = [Check("what", "found", "required", "outcome"), *checks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    outcomes = [check.outcome for check in checks]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in (PASS, FAIL, NOT_RUN))
    return "\n".join([*lines, "", counts])


def main() -> None:
    """Print the report, and write it as CSV if requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("summary", type=Path, help="the summary.csv of a study")
    parser.add_argument("--csv", type=Path, help="also write the report to this file")
    options = parser.parse_args()
    try:
        checks = compare(read_study(options.summary))
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"compare: {options.summary}, or runs.csv beside it, can't be compared: {error}")
    print(report(checks))
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(checks).to_csv(options.csv, index=False)
    outcomes = {check.outcome for check in checks}
    sys.exit(1 if FAIL in outcomes else 3 if NOT_RUN in outcomes else 0)


if __name__ == "__main__":
    main()
