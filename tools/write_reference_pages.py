"""Write the tables of README.md and paper/reference/README.md that follow from the reference data.

python tools/write_reference_pages.py

A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. Prose around it is written by people.
"""

import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "paper" / "reference"
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "workflow" / "scripts")]

from compare_published import FAIL, NOT_RUN, OPEN, PASS, Check, compare, read_study  # noqa: E402
from lib.choice import choice  # noqa: E402
from lib.explanations import explanations  # noqa: E402
from lib.labels import SCORES, label  # noqa: E402
from lib.published import PUBLISHED  # noqa: E402
from lib.reference import read_reference, select_study  # noqa: E402
from lib.small_data import read_small_data  # noqa: E402
from lib.small_labels import method_labels  # noqa: E402
from lib.small_tables import TABLES  # noqa: E402
from lib.tables import Record, read_cells  # noqa: E402
from select_reference import summarise_reference  # noqa: E402

FILES = {name: REFERENCE / f"{name}.csv" for name in ("runs", "traces", "ablations")}
SMALL_DATA, NOT_YET = REFERENCE / "small_data.csv", "Not run yet."
OUTCOMES = (PASS, FAIL, OPEN, NOT_RUN)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(line)} |".replace("|  |", "| |").replace("|  |", "| |") for line in lines
    )


def checks() -> list[Check]:
    """What `snakemake compare` finds."""
    runs = select_study(read_reference(FILES["runs"]))
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary.csv"
        summarise_reference(runs, list(read_cells(PUBLISHED).index)).to_csv(summary, index=False)
        runs.to_csv(summary.with_name("runs.csv"), index=False)
        return compare(read_study(summary))


def is_cell(check: Check) -> bool:
    """Whether a check is of a cell and not of a claim."""
    return check.what.endswith(SCORES)


def outcomes() -> str:
    """How many checks of cells and of claims passed."""
    kinds = {
        "scores of 24 cells (accuracy, log-likelihood) within tolerance": [c for c in checks() if is_cell(c)],
        "claims: HMC above LD; order of schemes; constant-to-refine near full batch; run times": [
            c for c in checks() if not is_cell(c)
        ],
    }
    rows = [
        [what, *(str([c.outcome for c in found].count(each)) for each in OUTCOMES)]
        for what, found in kinds.items()
    ]
    return markdown(["compared with the published table", "pass", "fail", "open", "not run"], rows)


def cells() -> str:
    """Cell by cell: ours over n seeds beside the published mean, with both standard deviations."""
    rows, found = [], checks()
    for accuracy, likelihood in zip(
        *[[c for c in found if c.what.endswith(f" {s}")] for s in SCORES], strict=True
    ):
        dataset, scheme, kernel, _ = accuracy.what.split()
        row = [
            f"{label(scheme).name}{' (c)' * bool(accuracy.chose)}",
            label(dataset).name,
            label(kernel).name,
        ]
        row.append(accuracy.seeds)
        for check in (accuracy, likelihood):
            required = check.required.split(" +- ")
            theirs = f"{required[0]} ± {check.published_sd}"
            ours = check.found + (f" ± {check.sd}" if check.sd else "")
            row += [f"**{ours}**" if check.outcome == FAIL else ours, theirs, required[1]]
        rows.append(row)
    columns = ["accuracy", "published", "tolerance", "log-likelihood", "published", "tolerance"]
    return markdown(["scheme", "dataset", "kernel", "seeds", *columns], rows)


def claims() -> str:
    """Claim by claim."""
    rows = [[c.what, c.found, c.required, c.outcome] for c in checks() if not is_cell(c)]
    return markdown(["claim", "found", "required", "outcome"], rows)


def picked(records: list[Record], columns: dict[str, str]) -> str:
    """Some columns of a table's records, under other names."""
    return markdown(
        list(columns.values()), [[record.get(name, "") for name in columns] for record in records]
    )


def rule() -> str:
    """The rule's table."""
    columns = {"start": "start", "prior_scale": "prior scale", "batch_norm": "batch normalisation"}
    columns |= {"weighting": "weighting", "within_4": "J = 4", "within_16": "J = 16", "within": "both"}
    columns |= {"of": "of", "distance": "distance", "n_runs": "runs", "chosen": "chosen"}
    return picked(choice(SimpleNamespace(**FILES, published=PUBLISHED)), columns)


def explained() -> str:
    """The explanations' table."""
    columns = {
        "words": "explanation",
        "start": "start",
        "batch_norm": "batch normalisation",
        "n_runs": "runs",
    }
    columns |= {"within_without": "within, without it", "within": "with it", "of": "of"}
    columns |= {"distance_without": "mean distance, without it", "distance": "with it"}
    columns |= {"test_accuracy_sd_published": "sd of accuracy, published"}
    columns |= {"test_accuracy_sd_without": "without it", "test_accuracy_sd": "with it"}
    return picked(explanations(SimpleNamespace(**FILES, published=PUBLISHED)), columns)


def few_images() -> str:
    """Scores of the small-data study: accuracy in percent and log-likelihood, per number of images."""
    records = TABLES["small_data_scores"](read_small_data(SMALL_DATA))
    cells = {(r["dataset"], r["method"], r["particles"], int(r["n_train"])): r for r in records}
    sizes = sorted({key[3] for key in cells})
    rows = []
    for dataset, method, particles in dict.fromkeys(key[:3] for key in cells):
        found = [cells.get((dataset, method, particles, size), {}) for size in sizes]
        scores = [[cell.get(f"{name}_mean", "") for name in SCORES] for cell in found]
        names = [label(dataset).name, method_labels([method])[method].name, particles]
        rows.append([*names, *(" / ".join(pair) if all(pair) else "" for pair in scores)])
    return markdown(["dataset", "method", "J", *(f"N = {n}" for n in sizes)], rows) if rows else NOT_YET


def against_ensemble() -> str:
    """The small-data study less the deep ensemble."""
    names = {"dataset": "dataset", "method": "method", "n_train": "N", "particles": "J", "n_seeds": "seeds"}
    names |= {"test_accuracy": "accuracy", "test_log_likelihood": "log-likelihood", "ood_auroc": "AUROC"}
    return small_table("small_data_versus", names)


def weights_alive() -> str:
    """The health of the small-data study's weights."""
    names = {"method": "method", "prior_scale": "prior scale", "particles": "J", "n_runs": "runs"}
    names |= {"acceptance": "smallest acceptance", "min_ess_share": "smallest conditional ESS share"}
    names |= {
        "drift": "largest drift",
        "n_withheld": "evidence withheld",
        "evidence_sd": "sd of log evidence",
    }
    names |= {"evidence_error": "its stated error", "likelihood_sd": "sd of log-likelihood"}
    return small_table("small_data_health", names)


def small_table(name: str, columns: dict[str, str]) -> str:
    """A table of the small-data study."""
    records = TABLES[name](read_small_data(SMALL_DATA))
    for record in records:
        record["method"] = method_labels([record["method"]])[record["method"]].name
        if "dataset" in record:
            record["dataset"] = label(record["dataset"]).name
    return picked(records, columns) if records else NOT_YET


PAGES = {
    ROOT / "README.md": {"outcomes": outcomes, "few-images": few_images},
    REFERENCE / "README.md": {
        "cells": cells,
        "claims": claims,
        "rule": rule,
        "explanations": explained,
        "against-ensemble": against_ensemble,
        "weights-alive": weights_alive,
    },
}


def filled(page: Path) -> str:
    """A page with its tables as the data are now."""
    text = page.read_text()
    for name, table in PAGES[page].items():
        begin, end = (f"<!-- {word} {name} -->" for word in ("begin", "end"))
        parts = re.split(f"{begin}.*?{end}", text, flags=re.DOTALL)
        if len(parts) != 2:
            raise ValueError(f"{page} must have one section {begin} ... {end}")
        text = f"{begin}\n\n{table()}\n\n{end}".join(parts)
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page))
