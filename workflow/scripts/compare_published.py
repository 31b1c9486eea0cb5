"""Compare a study with the published table: every cell, then every claim.

    python workflow/scripts/compare_published.py results/laptop/reference/summary.csv

A cell passes if its mean over n seeds lies within the tolerance of the published one: three published
standard deviations or the least difference that matters, whichever is larger. A claim is judged on the cells
that are there; where runs.csv lies beside the summary, two cells are compared over the seeds that both have,
so that the luck of a seed is on both sides. What was not run is 'not run' and never passes.
Exits with 0 if everything passed, 1 if something failed, 3 if nothing failed but something was not run.
"""

import argparse
import sys
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib.labels import SCORES, label
from lib.tables import (
    CELL,
    Cells,
    Key,
    Record,
    as_csv,
    axis,
    number,
    published_speedup,
    read_cells,
    read_rows,
    rounded,
)

from smcda._io import write_text

PUBLISHED = Path(__file__).resolve().parents[1] / "resources" / "published_table.csv"
ACCURACY_POINT = 1.0
LEAST = {
    ("test_accuracy", "mnist"): ACCURACY_POINT,
    ("test_accuracy", "fashion_mnist"): ACCURACY_POINT,
    ("test_log_likelihood", "mnist"): 0.02,
    ("test_log_likelihood", "fashion_mnist"): 0.03,
}
"""Differences that never fail a cell: accuracy points and nats."""

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"


class Check(NamedTuple):
    """One line of the report."""

    what: str
    found: str
    required: str
    outcome: str


class Study(NamedTuple):
    """Means of a study, what they are compared with, and its runs by cell and seed where they are known."""

    cells: Cells
    published: Cells
    runs: dict[Key, dict[str, Record]]

    def pair(self, a: Key, b: Key, metric: str) -> tuple[float, float] | None:
        """Means of two cells over the seeds that both have; without their runs, the cells' own means."""
        if a in self.runs and b in self.runs:
            seeds = sorted(self.runs[a].keys() & self.runs[b].keys())
            one, other = ([float(self.runs[key][seed][metric]) for seed in seeds] for key in (a, b))
            return (fmean(one), fmean(other)) if seeds else None
        one, other = (number(self.cells, key, f"{metric}_mean") for key in (a, b))
        return None if one is None or other is None else (one, other)


def read_study(summary: Path, published: Path = PUBLISHED) -> Study:
    """Read a summary, the runs.csv beside it if there is one, and the published table."""
    tables = []
    for path in (summary, published):
        try:
            tables.append(read_cells(path))
        except ValueError as error:
            raise ValueError(f"{path} is not the summary.csv of a study: {error}") from error
    runs: dict[Key, dict[str, Record]] = {}
    file = summary.with_name("runs.csv")
    try:
        for row in read_rows(file, *CELL, "seed", *SCORES, "gradient_evaluations") if file.is_file() else []:
            runs.setdefault((row["dataset"], row["scheme"], row["kernel"]), {})[row["seed"]] = row
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    return Study(*tables, runs)


def tolerance(published: Cells, key: Key, metric: str) -> float:
    """Three published standard deviations, or the least difference that matters if that is more."""
    return max(3 * (number(published, key, f"{metric}_std") or 0.0), LEAST[metric, key[0]])


def check_cell(cells: Cells, published: Cells, key: Key, metric: str) -> Check:
    """Compare one mean with the published one."""
    ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
    assert theirs is not None, f"the published table lacks {key}"
    allowed, digits = tolerance(published, key, metric), label(metric).decimals
    what, required = f"{' '.join(key)} {metric}", f"{rounded(theirs, digits)} +- {rounded(allowed, digits)}"
    if ours is None:
        return Check(what, "", required, NOT_RUN)
    found = f"{rounded(ours, digits)} ({rounded(ours - theirs, digits, sign='+')})"
    seeds = number(cells, key, "n_seeds")
    found += f" n={seeds:.0f}" if seeds else ""
    return Check(what, found, required, PASS if abs(ours - theirs) <= allowed else FAIL)


def hmc_above_ld(study: Study, metric: str) -> list[bool]:
    """Whether HMC's mean is above LD's, for every dataset and scheme."""
    cells = axis(study.published, 0, 1)
    pairs = [study.pair((*cell, "hmc"), (*cell, "ld"), metric) for cell in cells]
    return [hmc > ld for hmc, ld in filter(None, pairs)]


def same_order(study: Study) -> list[bool]:
    """Whether two schemes stand in the published order of accuracy, wherever that order is clear.

    It is clear when the published means differ by more than both their standard deviations together.
    """
    answers = []
    for a, b in combinations(study.published, 2):
        theirs = [number(study.published, key, "test_accuracy_mean") or 0.0 for key in (a, b)]
        spread = sum(number(study.published, key, "test_accuracy_std") or 0.0 for key in (a, b))
        if (a[0], a[2]) != (b[0], b[2]) or abs(theirs[0] - theirs[1]) <= spread:
            continue
        if ours := study.pair(a, b, "test_accuracy"):
            answers.append((theirs[0] > theirs[1]) == (ours[0] > ours[1]))
    return answers


def close_to_full_batch(study: Study) -> list[bool]:
    """Whether constant-to-refine is within a point of full batch for a fifth of its gradients or less."""
    answers = []
    for dataset, kernel in axis(study.published, 0, 2):
        keys = ((dataset, "constant_to_refine", kernel), (dataset, "full_batch", kernel))
        scores, costs = (study.pair(*keys, metric) for metric in ("test_accuracy", "gradient_evaluations"))
        if scores and costs:
            close = abs(scores[0] - scores[1]) <= ACCURACY_POINT
            answers.append(close and 5 * costs[0] <= costs[1])
    return answers


def fast_enough(study: Study, scheme: str) -> list[bool]:
    """Whether full batch takes at least the published multiple of a scheme's seconds."""
    keys = [key for key in study.published if key[1] == scheme]
    ours = [number(study.cells, key, "speedup_seconds") for key in keys]
    theirs = [published_speedup(study.published, key) for key in keys]
    return [a >= b for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]


def check_claims(study: Study) -> list[Check]:
    """Judge every claim by the comparisons that can be made."""
    everywhere, ratio = "every dataset and scheme", "the published ratio or more"
    claims = [
        ("HMC above LD in accuracy", everywhere, hmc_above_ld(study, "test_accuracy")),
        ("HMC above LD in log-likelihood", everywhere, hmc_above_ld(study, "test_log_likelihood")),
        ("schemes in the published order", "every clear pair", same_order(study)),
        (
            "constant-to-refine close to full batch, cheaper",
            "1 point, a fifth of the gradients",
            close_to_full_batch(study),
        ),
        ("full batch / constant-to-refine, seconds", ratio, fast_enough(study, "constant_to_refine")),
        ("full batch / constant, seconds", ratio, fast_enough(study, "constant")),
    ]
    checks = []
    for what, required, holds in claims:
        found = f"holds in {sum(holds)} of {len(holds)}" if holds else ""
        outcome = NOT_RUN if not holds else PASS if all(holds) else FAIL
        checks.append(Check(what, found, required, outcome))
    return checks


def compare(study: Study) -> list[Check]:
    """Every cell and every claim."""
    cells = [(key, metric) for key in study.published for metric in SCORES]
    return [check_cell(study.cells, study.published, *cell) for cell in cells] + check_claims(study)


def report(checks: list[Check]) -> str:
    """Lay the checks out as text, with the count of each outcome at the end."""
    rows = [Check("what", "found", "required", "outcome"), *checks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    outcomes = [check.outcome for check in checks]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in (PASS, FAIL, NOT_RUN))
    return "\n".join([*lines, "", counts])


def exit_code(checks: list[Check]) -> int:
    """0 if everything passed, 1 if something failed, 3 if something was not run."""
    outcomes = {check.outcome for check in checks}
    return 1 if FAIL in outcomes else 3 if NOT_RUN in outcomes else 0


def main() -> None:
    """Print the report, and write it as CSV if requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("summary", type=Path, help="the summary.csv of a study")
    parser.add_argument("--published", type=Path, default=PUBLISHED, help="the table to compare with")
    parser.add_argument("--csv", type=Path, help="also write the report to this file")
    options = parser.parse_args()
    try:
        checks = compare(read_study(options.summary, options.published))
    except FileNotFoundError as error:
        sys.exit(f"compare: {error.filename} does not exist: give the summary.csv of a finished study")
    except ValueError as error:
        sys.exit(f"compare: {options.summary}, or runs.csv beside it, can't be read: {error}")
    print(report(checks))
    if options.csv:
        write_text(options.csv, as_csv(check._asdict() for check in checks))
    sys.exit(exit_code(checks))


if __name__ == "__main__":
    main()
