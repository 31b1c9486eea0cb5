"""Keep what a study has measured so far as small tables that can be committed.

    python workflow/scripts/evidence.py results/cpu-study/paper

reads every finished run and variant under that folder (of several folders, the last that has it), starts
none, and writes into paper/measured:
`runs.csv` (a row a run, with settings, machine, versions and commit), `summary.csv` (mean and spread over
seeds; a cell that was not run has no numbers), `traces.csv` (the iterations at which runs were scored),
`decisions.csv` (a row a variant, dataset and kernel) and `verify.txt` (what `snakemake verify` says to it).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from cells import read_cells
from summary import GROUP, RUN_COLUMNS, summarise
from verify import PUBLISHED, report, verify

from smcda.files import write_text

HERE = Path(__file__).parent
MEASURED = HERE.parents[1] / "paper" / "measured"
SETTINGS = ("step_size", "leapfrog_steps", "batch_size", "initial_batch", "resampling", "weight_target")
TRACED = (
    "iteration",
    "batch_size",
    "beta",
    "ess",
    "unique_ancestors",
    "gradient_evaluations",
    "test_log_likelihood",
    "test_accuracy",
)
RUNS, TRIED = "runs/*/*/*/seed-*/metrics.json", "variants/*/*/*/seed-*.json"
DECISION = ["dataset", "variant", "kernel", "particles", "iterations", "step_size"]
SCORES = ["test_log_likelihood", "test_accuracy"]


def finished(studies: list[Path], pattern: str) -> list[Path]:
    """The files of that pattern under all studies; where two have the same, the later one's."""
    files = {file.relative_to(study): file for study in studies for file in study.glob(pattern)}
    return [files[name] for name in sorted(files)]


def runs_table(files: list[Path], commit: str | None = None) -> pd.DataFrame:
    """One row a finished run, with all that is needed to make it again."""
    about = {"machine": processor(), "python": platform.python_version()}
    rows = []
    for file in files:
        run = json.loads(file.read_text())
        row = {name: run[name] for name in RUN_COLUMNS} | {name: run["settings"][name] for name in SETTINGS}
        versions = {f"{name}_version": run["versions"][name] for name in ("smcda", "jax", "flax")}
        row |= {name: run[name] for name in ("batch_norm", "gradients", "resumed")}
        rows.append(row | versions | about | {"commit": commit or commit_of(file.parents[4])})
    return pd.DataFrame(rows)


def traces_table(files: list[Path]) -> pd.DataFrame:
    """The scored iterations of every finished run."""
    parts = []
    for file in files:
        run = json.loads(file.read_text())
        trace = pd.read_csv(file.with_name("trace.csv")).dropna(subset=["test_accuracy"])[list(TRACED)]
        parts.append(trace.assign(**{name: run[name] for name in (*GROUP, "seed")}))
    table = pd.concat(parts)
    return table[[*GROUP, "seed", *TRACED]]


def decisions_table(files: list[Path]) -> pd.DataFrame:
    """Mean and spread over the seeds of each variant that was tried."""
    tried = pd.DataFrame([json.loads(file.read_text()) for file in files])
    groups = tried.groupby(DECISION)
    table = groups["seed"].agg(n_seeds="count", seeds=lambda seeds: " ".join(map(str, sorted(seeds))))
    for score in SCORES:
        table[f"{score}_mean"], table[f"{score}_std"] = groups[score].mean(), groups[score].std(ddof=1)
    return table.reset_index()


def expected_runs(runs: pd.DataFrame) -> list[dict[str, Any]]:
    """The published cells, each with every seed that any run used."""
    seeds = sorted(set(runs["seed"]))
    return [dict(zip(GROUP, key, strict=True)) | {"seed": s} for key in read_cells(PUBLISHED) for s in seeds]


def processor() -> str:
    """Say what the machine is: its processor and how many of its cores may be used."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {len(os.sched_getaffinity(0))} cores"


@cache
def commit_of(folder: Path) -> str:
    """Name the commit of the copy of the project that holds a study: the sources that made its runs."""
    command = ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"evidence: {folder} is in no git repository: name the sources' commit by --commit")
    return done.stdout.strip()


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path, nargs="+", help="folder such as results/cpu-study/paper")
    parser.add_argument("--into", type=Path, default=MEASURED)
    parser.add_argument(
        "--commit", help="of the sources that made the runs; that of the copy they are in if not given"
    )
    options = parser.parse_args()
    files = finished(options.study, RUNS)
    if not files:
        sys.exit(f"evidence: {options.study[-1]} holds no finished run: start one as the README says")
    runs = runs_table(files, options.commit)
    tables = {"runs": runs, "summary": summarise(runs, expected_runs(runs)), "traces": traces_table(files)}
    variants = finished(options.study, TRIED)
    if variants:
        tables["decisions"] = decisions_table(variants)
    for name, table in tables.items():
        write_text(options.into / f"{name}.csv", table.to_csv(index=False, float_format="%.8g"))
        print(f"{options.into / name}.csv: {len(table)} rows")
    checks = verify(read_cells(options.into / "summary.csv"), read_cells(PUBLISHED))
    write_text(options.into / "verify.txt", report(checks) + "\n")


if __name__ == "__main__":
    main()
