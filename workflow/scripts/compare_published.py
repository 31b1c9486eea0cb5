"""Compare a study with the published table: every cell, then every claim.

    python workflow/scripts/compare_published.py results/laptop/reference/summary.csv

A cell passes if its mean over n seeds lies within the tolerance of the published one: three published
standard deviations or the least difference that matters, whichever is larger. Its own standard deviation over
seeds and the published one stand beside it. Cells marked 'chose' decided a setting that the published text
leaves open, so that their agreement is no independent evidence. Claims are in lib/claims.py: an order counts
only where two cells differ by more than their seeds do. What was not run is 'not run', and a claim none of
whose comparisons is clear is 'open'; neither passes.
Exits with 0 if everything passed, 1 if something failed, 3 if nothing failed but not everything passed.
"""

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib.claims import Claim, Study, claims
from lib.labels import SCORES, label
from lib.published import PUBLISHED, distance, one_image, tolerance
from lib.reference import CHOSE
from lib.tables import Key, number, printed, read_cells, rounded

PASS, FAIL, OPEN, NOT_RUN = "pass", "FAIL", "open", "not run"


class Check(NamedTuple):
    """One line of the report."""

    what: str
    found: str
    required: str
    outcome: str
    seeds: str = ""
    sd: str = ""
    published_sd: str = ""
    chose: str = ""


def read_study(summary: Path, published: Path = PUBLISHED) -> Study:
    """Read a summary, the runs.csv beside it if there is one, and the published table."""
    runs = summary.with_name("runs.csv")
    return Study(
        read_cells(summary), read_cells(published), read_cells(runs, "seed") if runs.is_file() else None
    )


def check_cell(cells: pd.DataFrame, published: pd.DataFrame, key: Key, metric: str) -> Check:
    """Compare one mean with the published one."""
    ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
    allowed, digits = tolerance(published, key, metric), label(metric).decimals
    what, required = f"{' '.join(key)} {metric}", f"{rounded(theirs, digits)} +- {rounded(allowed, digits)}"
    beside = {"published_sd": printed(published, key, metric, "std")}
    beside |= {"sd": printed(cells, key, metric, "std"), "chose": "chose" if key[1] in CHOSE else ""}
    if math.isnan(ours):
        return Check(what, "", required, NOT_RUN, **beside)
    found = f"{rounded(ours, digits)} ({rounded(ours - theirs, digits, sign='+')})"
    beside["seeds"] = rounded(number(cells, key, "n_seeds"), 0)
    outcome = PASS if distance(cells, published, key, metric) <= 1 else FAIL
    return Check(what, found, required, outcome, **beside)


def check_claim(claim: Claim) -> Check:
    """Judge a claim by its comparisons."""
    n_open = f"{claim.n_open} open" if claim.n_open else ""
    found = f"holds in {sum(claim.holds)} of {len(claim.holds)}" if claim.holds else ""
    parts = ", ".join(filter(None, (found, n_open, claim.detail)))
    undecided = OPEN if claim.n_open else NOT_RUN
    outcome = undecided if not claim.holds else PASS if all(claim.holds) else FAIL
    return Check(claim.what, parts, claim.required, outcome)


def compare(study: Study) -> list[Check]:
    """Every cell, then every claim by the comparisons that can be made."""
    cells = [(key, metric) for key in study.published.index for metric in SCORES]
    checks = [check_cell(study.cells, study.published, *cell) for cell in cells]
    return checks + [check_claim(claim) for claim in claims(study)]


def implausible(published: pd.DataFrame) -> str:
    """Name the published standard deviations of accuracy that are one test image or less."""
    accuracy, loss = (f"{metric}_std" for metric in SCORES)
    small = published[published[accuracy] <= one_image()]
    if small.empty:
        return ""
    rest = published.drop(small.index)
    groups = {(dataset, kernel) for dataset, _, kernel in small.index}
    like = rest[[(dataset, kernel) in groups for dataset, _, kernel in rest.index]]
    lines = [f"{' '.join(key)} has {row[accuracy]:g} beside {row[loss]:g}" for key, row in small.iterrows()]
    low, high = (like[[accuracy, loss]].agg(which) for which in ("min", "max"))
    return (
        f"Published standard deviations of accuracy that are one test image ({one_image():g}) beside the "
        f"log-likelihood's:\n{'; '.join(lines)}.\nOther schemes there have {low[accuracy]:g} to "
        f"{high[accuracy]:g} beside {low[loss]:g} to {high[loss]:g}: implausible, so the tolerance judges."
    )


def report(checks: list[Check]) -> str:
    """Lay the checks out as text, with the count of each outcome at the end."""
    rows = [Check._fields, *checks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    outcomes = [check.outcome for check in checks]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in (PASS, FAIL, OPEN, NOT_RUN))
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
        study = read_study(options.summary)
        checks = compare(study)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"compare: {options.summary}, or runs.csv beside it, can't be compared: {error}")
    print("\n\n".join([report(checks), *filter(None, [implausible(study.published)])]))
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(checks).to_csv(options.csv, index=False)
    outcomes = {check.outcome for check in checks}
    sys.exit(1 if FAIL in outcomes else 3 if outcomes - {PASS} else 0)


if __name__ == "__main__":
    main()
