"""Hold a study against the published table: every cell, then every claim.

    python workflow/scripts/verify.py paper/measured/summary.csv

A cell passes if its mean over n seeds lies within the tolerance of the published one: three published
standard deviations or the least that is worth noticing, whichever is larger. A claim is judged on the
cells that are there; where runs.csv lies beside the summary, two cells are compared over the seeds that
both have, so that the luck of a seed is on both sides. What was not run is 'not run' and never passes.
Leaves with 0 if everything passed, 1 if something failed, 3 if nothing failed but something was not run.
"""

import argparse
import csv
import io
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from cells import DECIMALS, Cells, Key, number, published_speedup, read_cells, read_rows, rounded

from smcda._io import write_text

PUBLISHED = Path(__file__).parents[1] / "resources" / "published_table.csv"
LEAST = {
    ("test_accuracy", "mnist"): 1.0,
    ("test_accuracy", "fashion_mnist"): 1.0,
    ("test_log_likelihood", "mnist"): 0.02,
    ("test_log_likelihood", "fashion_mnist"): 0.03,
}
"""Differences that never fail a cell: accuracy points and nats."""

Runs = dict[Key, dict[str, dict[str, str]]]
"""The runs of each cell by seed, every value the text it was written as."""

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"


class Check(NamedTuple):
    """One line of the report."""

    what: str
    found: str
    asked: str
    outcome: str


def check_cell(cells: Cells, published: Cells, key: Key, metric: str) -> Check:
    """Compare one mean with the published one."""
    theirs, spread = (number(published, key, f"{metric}_{part}") for part in ("mean", "std"))
    ours, digits = number(cells, key, f"{metric}_mean"), DECIMALS[metric]
    assert theirs is not None and spread is not None, f"the published table lacks {key}"
    tolerance = max(3 * spread, LEAST[metric, key[0]])
    asked = f"{rounded(theirs, digits)} +- {rounded(tolerance, digits)}"
    what = f"{' '.join(key)} {metric}"
    if ours is None:
        return Check(what, "", asked, NOT_RUN)
    difference = ours - theirs
    found = f"{rounded(ours, digits)} ({rounded(difference, digits, sign='+')})"
    seeds = number(cells, key, "n_seeds")
    found += f" n={seeds:.0f}" if seeds else ""
    return Check(what, found, asked, PASS if abs(difference) <= tolerance else FAIL)


def judge(what: str, asked: str, holds: list[bool]) -> Check:
    """Turn the answers of all comparisons that could be made into one verdict."""
    if not holds:
        return Check(what, "", asked, NOT_RUN)
    found = f"holds in {sum(holds)} of {len(holds)}"
    return Check(what, found, asked, PASS if all(holds) else FAIL)


def runs_beside(summary: Path) -> Runs:
    """Read the runs.csv beside a summary; nothing if there is none."""
    runs: Runs = {}
    file = summary.with_name("runs.csv")
    needed = ("dataset", "scheme", "kernel", "seed", "test_accuracy", "test_log_likelihood")
    for row in read_rows(file, *needed, "gradient_evaluations") if file.is_file() else []:
        runs.setdefault((row["dataset"], row["scheme"], row["kernel"]), {})[row["seed"]] = row
    return runs


def pair(cells: Cells, runs: Runs, a: Key, b: Key, metric: str) -> tuple[float, float] | None:
    """Means of two cells over the seeds that both have; without their runs, the cells' own means."""
    if a in runs and b in runs:
        seeds = sorted(runs[a].keys() & runs[b].keys())
        one, other = ([float(runs[key][seed][metric]) for seed in seeds] for key in (a, b))
        return (fmean(one), fmean(other)) if seeds else None
    means = (number(cells, a, f"{metric}_mean"), number(cells, b, f"{metric}_mean"))
    return None if means[0] is None or means[1] is None else (means[0], means[1])


def hmc_above_ld(cells: Cells, published: Cells, runs: Runs, metric: str) -> list[bool]:
    """Whether HMC's mean is above LD's, for every dataset and scheme."""
    pairs = [
        pair(cells, runs, (dataset, scheme, "hmc"), (dataset, scheme, "ld"), metric)
        for dataset, scheme in dict.fromkeys(key[:2] for key in published)
    ]
    return [means[0] > means[1] for means in pairs if means]


def same_order(cells: Cells, published: Cells, runs: Runs) -> list[bool]:
    """Whether two schemes stand in the published order of accuracy, wherever that order is clear.

    It is clear when the published means differ by more than both their standard deviations together.
    """
    answers = []
    for dataset, kernel in dict.fromkeys((key[0], key[2]) for key in published):
        keys = [key for key in published if (key[0], key[2]) == (dataset, kernel)]
        for a, b in combinations(keys, 2):
            theirs = [number(published, key, "test_accuracy_mean") or 0.0 for key in (a, b)]
            spread = sum(number(published, key, "test_accuracy_std") or 0.0 for key in (a, b))
            ours = pair(cells, runs, a, b, "test_accuracy")
            if ours and abs(theirs[0] - theirs[1]) > spread:
                answers.append((theirs[0] > theirs[1]) == (ours[0] > ours[1]))
    return answers


def close_to_full_batch(cells: Cells, published: Cells, runs: Runs) -> list[bool]:
    """Whether constant-to-refine is within a point of full batch for a fifth of its gradients or less."""
    answers = []
    for dataset, kernel in dict.fromkeys((key[0], key[2]) for key in published):
        keys = ((dataset, "constant_to_refine", kernel), (dataset, "full_batch", kernel))
        scores, costs = (pair(cells, runs, *keys, name) for name in ("test_accuracy", "gradient_evaluations"))
        if scores and costs:
            close = abs(scores[0] - scores[1]) <= LEAST["test_accuracy", dataset]
            answers.append(close and 5 * costs[0] <= costs[1])
    return answers


def fast_enough(cells: Cells, published: Cells, scheme: str) -> list[bool]:
    """Whether full batch takes at least the published multiple of a scheme's seconds."""
    answers = []
    for key in published:
        ours, theirs = number(cells, key, "speedup_seconds"), published_speedup(published, key)
        if key[1] == scheme and ours is not None and theirs is not None:
            answers.append(ours >= theirs)
    return answers


Claim = Callable[[Cells, Cells, Runs], list[bool]]
CLAIMS: dict[tuple[str, str], Claim] = {
    ("HMC above LD in accuracy", "every dataset and scheme"): lambda c, p, r: hmc_above_ld(
        c, p, r, "test_accuracy"
    ),
    ("HMC above LD in log-likelihood", "every dataset and scheme"): lambda c, p, r: hmc_above_ld(
        c, p, r, "test_log_likelihood"
    ),
    ("schemes in the published order", "every clear pair"): same_order,
    (
        "constant_to_refine close to full_batch, cheaper",
        "1 point, a fifth of the gradients",
    ): close_to_full_batch,
    ("full_batch / constant_to_refine, seconds", "the published ratio or more"): lambda c, p, _: fast_enough(
        c, p, "constant_to_refine"
    ),
    ("full_batch / constant, seconds", "the published ratio or more"): lambda c, p, _: fast_enough(
        c, p, "constant"
    ),
}


def verify(cells: Cells, published: Cells, runs: Runs) -> list[Check]:
    """Every cell and every claim."""
    metrics = ("test_accuracy", "test_log_likelihood")
    checks = [check_cell(cells, published, key, metric) for key in published for metric in metrics]
    claims = [judge(what, asked, holds(cells, published, runs)) for (what, asked), holds in CLAIMS.items()]
    return checks + claims


def report(checks: list[Check]) -> str:
    """Lay the checks out as text, with the count of each outcome at the end."""
    rows = [Check("what", "found", "asked for", "outcome"), *checks]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    counts = [
        f"{sum(check.outcome == outcome for check in checks)} {outcome}" for outcome in (PASS, FAIL, NOT_RUN)
    ]
    return "\n".join([*lines, "", ", ".join(counts)])


def exit_code(checks: list[Check]) -> int:
    """Say by a number whether everything passed."""
    outcomes = {check.outcome for check in checks}
    return 1 if FAIL in outcomes else 3 if NOT_RUN in outcomes else 0


def main() -> None:
    """Print the report, and write it as CSV if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("summary", type=Path, help="the summary.csv of a study")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--csv", type=Path, help="write the report here too")
    options = parser.parse_args()
    tables = []
    for path in (options.summary, options.published):
        if not path.is_file():
            sys.exit(f"verify: {path} is not there: give the summary.csv of a finished study")
        try:
            tables.append(read_cells(path))
        except ValueError as error:
            sys.exit(f"verify: {path} is no summary.csv of a study: {error}")
    try:
        runs = runs_beside(options.summary)
    except ValueError as error:
        sys.exit(f"verify: runs.csv beside {options.summary} is damaged: {error}")
    try:
        checks = verify(*tables, runs)
    except ValueError as error:
        sys.exit(f"verify: {options.summary}, or runs.csv beside it, is damaged: {error}")
    print(report(checks))
    if options.csv:
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows([Check._fields, *checks])
        write_text(options.csv, table.getvalue())
    sys.exit(exit_code(checks))


if __name__ == "__main__":
    main()
