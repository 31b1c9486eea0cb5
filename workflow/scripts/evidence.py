"""Keep what a study has measured so far as small tables that can be committed.

    python workflow/scripts/evidence.py results/cpu-study/paper

reads every finished run and variant under that folder (of several folders, the last that has it), starts
none, and writes into paper/measured:

- `runs.csv`: a row a run, with settings, machine, versions and commit;
- `summary.csv`: mean and spread over seeds; a cell that was not run has no numbers, and seconds of
  different machines make no speed-up;
- `traces.csv`: the iterations at which runs were scored;
- `variants.csv`: a row a variant, dataset, kernel and seed;
- `decisions.csv`: its mean and spread over seeds, beside `constant` with nothing changed; a kept row over
  more seeds stays;
- `curvature.csv`: how sharp the mean loss was along runs of `constant`;
- `verify.txt`: what `snakemake verify` says to `summary.csv`.

What is kept there already stays, unless it was made again: a study can be carried on elsewhere, where its
first results are not. Runs of other settings than those kept are refused, and so are variants beside runs
that have another prior.
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
from variants import VARIANTS
from verify import PUBLISHED, report, runs_beside, verify

from smcda._io import write_text

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
FOLLOWED = "curvature/*/*/seed-*.csv"
RUN = [*GROUP, "seed"]
ONE_STUDY = ["particles", "iterations", "n_train", "n_test", *SETTINGS, "batch_norm", "prior_scale"]
DECISION = ["dataset", "variant", "kernel", "particles", "iterations", "step_size"]
TRIAL = ["dataset", "variant", "kernel", "seed"]
FOLLOW = ["dataset", "kernel", "seed", "particles"]
SCORES = ["test_log_likelihood", "test_accuracy"]


def finished(studies: list[Path], pattern: str) -> list[Path]:
    """The files of that pattern under all studies; where two have the same, the later one's."""
    files = {file.relative_to(study): file for study in studies for file in study.glob(pattern)}
    return [files[name] for name in sorted(files)]


def provenance(file: Path, commit: str | None) -> dict[str, str]:
    """Say where and by which sources a result under a study's folder was made."""
    about = {"machine": processor(), "python": platform.python_version()}
    return about | {"commit": commit or commit_of(file.parent)}


def runs_table(files: list[Path], commit: str | None = None) -> pd.DataFrame:
    """One row a finished run, with all that is needed to make it again."""
    rows = []
    for file in files:
        run = json.loads(file.read_text())
        row = {name: run[name] for name in RUN_COLUMNS} | {name: run["settings"][name] for name in SETTINGS}
        versions = {f"{name}_version": run["versions"][name] for name in ("smcda", "jax", "flax")}
        row |= {name: run[name] for name in ("batch_norm", "gradients", "resumed")}
        row |= {"prior_scale": run.get("prior_scale")}  # which the first runs were not asked for
        rows.append(row | versions | provenance(file, commit))
    return pd.DataFrame(rows)


def traces_table(files: list[Path]) -> pd.DataFrame:
    """The scored iterations of every finished run."""
    parts = []
    for file in files:
        run = json.loads(file.read_text())
        trace = pd.read_csv(file.with_name("trace.csv")).dropna(subset=["test_accuracy"])[list(TRACED)]
        parts.append(trace.assign(**{name: run[name] for name in RUN}))
    return pd.concat(parts)[[*RUN, *TRACED]] if parts else pd.DataFrame(columns=[*RUN, *TRACED])


def variants_table(files: list[Path], commit: str | None = None) -> pd.DataFrame:
    """One row a variant that was tried with a seed."""
    return pd.DataFrame([json.loads(file.read_text()) | provenance(file, commit) for file in files])


def curvature_table(files: list[Path], commit: str | None = None) -> pd.DataFrame:
    """What all followed runs found, one after another."""
    tables = [pd.read_csv(file).assign(**provenance(file, commit)) for file in files]
    return pd.concat(tables) if tables else pd.DataFrame()


def decisions_table(variants: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Mean and spread over the seeds of each variant, and of `constant` with nothing changed."""
    unchanged = runs[runs["scheme"] == "constant"].assign(variant="default")
    groups = pd.concat([unchanged, variants])[[*DECISION, "seed", *SCORES]].groupby(DECISION)
    table = groups["seed"].agg(n_seeds="count", seeds=lambda seeds: " ".join(map(str, sorted(seeds))))
    for score in SCORES:
        table[f"{score}_mean"], table[f"{score}_std"] = groups[score].mean(), groups[score].std(ddof=1)
    return table.reset_index()


def with_kept(made: pd.DataFrame, kept_in: Path, key: list[str]) -> pd.DataFrame:
    """Add the rows of a kept table whose key was not made again, in the order of the key."""
    tables = [made] if len(made) else []
    if kept_in.exists():
        kept = pd.read_csv(kept_in, dtype={"commit": str})
        made_again = set(made[key].itertuples(index=False, name=None)) if tables else set()
        tables.append(kept[[row not in made_again for row in kept[key].itertuples(index=False, name=None)]])
    tables = [table for table in tables if len(table)]
    return pd.concat(tables).sort_values(key, kind="stable", ignore_index=True) if tables else made


def with_more_seeds(made: pd.DataFrame, kept_in: Path) -> pd.DataFrame:
    """Keep a decision's row over more seeds than were made: the first ones were not kept run by run."""
    if not kept_in.exists():
        return made
    kept = pd.read_csv(kept_in)
    both = pd.concat([made, kept[kept["variant"] != "default"]])
    most = both.sort_values("n_seeds", ascending=False, kind="stable").drop_duplicates(DECISION)
    return most.sort_values(DECISION, ignore_index=True)


def refuse_two_studies(runs: pd.DataFrame) -> None:
    """Leave where runs of one cell differ in a setting: their mean would mean nothing."""
    for cell, group in runs.groupby(["dataset", "kernel"]):
        for name in ONE_STUDY:
            values = {None if pd.isna(value) else value for value in group[name]}
            if len(values) > 1:
                found = " and ".join(sorted(str(value) for value in values))
                sys.exit(f"evidence: runs of {' '.join(cell)} have {name} {found}: keep them apart by --into")


def refuse_variants_of_another_study(variants: pd.DataFrame, runs: pd.DataFrame) -> None:
    """Leave where a variant is not about the prior and has another than the runs it is compared with."""
    prior = {None if pd.isna(scale) else scale for scale in runs["prior_scale"]}
    for row in variants.to_dict("records"):
        scale = row.get("prior_scale")
        variant = VARIANTS.get(str(row["variant"]))  # None if it was kept by its former name
        about_prior = variant and "prior_scale" in variant.model
        if not about_prior and (None if pd.isna(scale) else scale) not in prior:
            sys.exit(
                f"evidence: variant {row['variant']} was tried with prior_scale {scale}, the runs have"
                f" {' and '.join(map(str, prior))}: try it again beside them, or keep it apart by --into"
            )


def kept_summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds; seconds are compared only where both sides are of one and the same machine."""
    summary = summarise(runs, expected_runs(runs))
    machines = {cell: set(names) for cell, names in runs.groupby(GROUP)["machine"]}
    for row, (dataset, scheme, kernel) in enumerate(summary[GROUP].itertuples(index=False, name=None)):
        sides = (machines.get((dataset, name, kernel), set()) for name in (scheme, "full_batch"))
        if len(set.union(*sides)) > 1:
            summary.loc[row, "speedup_seconds"] = float("nan")
    return summary


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
    files, tried = (finished(options.study, pattern) for pattern in (RUNS, TRIED))
    if not files and not tried:
        sys.exit(f"evidence: {options.study[-1]} holds no finished run: start one as the README says")
    runs = with_kept(runs_table(files, options.commit), options.into / "runs.csv", RUN)
    if runs.empty:
        sys.exit(f"evidence: {options.study[-1]} holds variants, but no run to compare them with")
    refuse_two_studies(runs)
    traces = with_kept(traces_table(files), options.into / "traces.csv", RUN)
    tables = {"runs": runs, "summary": kept_summary(runs), "traces": traces}
    variants = with_kept(variants_table(tried, options.commit), options.into / "variants.csv", TRIAL)
    if len(variants):
        refuse_variants_of_another_study(variants, runs)
        decisions = with_more_seeds(decisions_table(variants, runs), options.into / "decisions.csv")
        tables |= {"variants": variants, "decisions": decisions}
    followed = curvature_table(finished(options.study, FOLLOWED), options.commit)
    followed = with_kept(followed, options.into / "curvature.csv", FOLLOW)
    if len(followed):
        tables["curvature"] = followed
    for name, table in tables.items():
        write_text(options.into / f"{name}.csv", table.to_csv(index=False, float_format="%.8g"))
        print(f"{options.into / name}.csv: {len(table)} rows")
    summary = options.into / "summary.csv"
    checks = verify(read_cells(summary), read_cells(PUBLISHED), runs_beside(summary))
    write_text(options.into / "verify.txt", report(checks) + "\n")


if __name__ == "__main__":
    main()
