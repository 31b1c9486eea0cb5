"""All runs as one table (`runs.csv`), and mean and spread over seeds (`summary.csv`).

A run that is not there is named in the column `missing_seeds` of its group; nothing is averaged over fewer
seeds without saying so. Which run a file belongs to is known from its path, not from its content.

Snakemake calls this when all runs are finished. For what is finished so far:

    python workflow/scripts/summarise.py results/laptop [--out DIR]
"""

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lib.labels import HEADLINES
from lib.labels import METRICS as LABELS
from lib.script import run_script
from lib.tables import CELL, rows_of

METRICS = [name for name in LABELS if not name.startswith("speedup")]
RUN_COLUMNS = [*CELL, "seed", "ablation", "network", "n_parameters", "particles", "iterations"]
RUN_COLUMNS += ["n_train", "n_test", *METRICS, "log_evidence", "peak_memory_mb", "device"]
RUN_COLUMNS += ["prior_scale", "start", "start_seed", "batch_norm", "step_size", "leapfrog_steps"]
RUN_COLUMNS += ["batch_size", "initial_batch", "resampling", "weight_target", "weighting"]
RUN_COLUMNS += ["gradients", "resumed"]
RUN_COLUMNS += ["smcda_version", "jax_version", "flax_version", "machine", "python", "commit"]
NO_SCORES = {"devices", "checkpoint_s", "log_evidence_error", "start_seed"}
"""Numbers of a run beside `RUN_COLUMNS` that are no score."""

SHOWN = [*CELL, "n_seeds", "missing_seeds"]
"""Columns that the command prints, before the scores."""


def read_run(run: dict[str, Any], file: Path) -> dict[str, Any]:
    """One row of `runs.csv`: the run's place in the study, and what it recorded of itself.

    Scores that `RUN_COLUMNS` does not name, such as those of a likelihood of the user's own, come after it.
    """
    metrics = json.loads(Path(file).read_text())
    versions = {f"{name}_version": version for name, version in metrics.get("versions", {}).items()}
    own = {"ablation": "", "network": metrics.get("model", metrics.get("network"))}
    recorded = metrics.get("settings", {}) | metrics | versions | own | run
    scores = [
        name
        for name, value in metrics.items()
        if type(value) in (int, float) and name not in NO_SCORES | set(RUN_COLUMNS)
    ]
    return {name: recorded.get(name) for name in (*RUN_COLUMNS, *scores)}


def runs_table(runs: list[dict[str, Any]], files: list[Path]) -> pd.DataFrame:
    """One row per run, in the order given."""
    rows = [read_run(run, file) for run, file in zip(runs, files, strict=True)]
    columns = dict.fromkeys([*RUN_COLUMNS, *(name for row in rows for name in row)])
    return pd.DataFrame(rows, columns=list(columns))


def summarise(runs: pd.DataFrame, expected: list[dict[str, Any]]) -> pd.DataFrame:
    """One row per dataset x scheme x kernel: means, standard deviations, speed-ups over full batch.

    All metrics that the runs have are averaged; a cell whose runs lack one has no number there.
    """
    rows, known = [], [name for name in METRICS if name in runs]
    metrics = known + [name for name in runs.select_dtypes("number") if name not in RUN_COLUMNS]
    for cell, seeds in pd.DataFrame(expected).groupby(CELL, sort=False)["seed"]:
        own = rows_of(runs, cell)
        missing = " ".join(map(str, seeds[~seeds.isin(own["seed"])]))
        row = dict(zip(CELL, cell, strict=True)) | {"n_seeds": len(own), "missing_seeds": missing}
        for name in metrics:
            values = own[name].astype(float)
            row |= {f"{name}_mean": values.mean(), f"{name}_std": values.std()}
        rows.append(row)
    summary = pd.DataFrame(rows)
    full_batch = summary[summary["scheme"] == "full_batch"].set_index(["dataset", "kernel"])
    full_batch = full_batch.reindex(pd.MultiIndex.from_frame(summary[["dataset", "kernel"]]))
    for name, metric in (("speedup_seconds", "runtime_s"), ("speedup_gradients", "gradient_evaluations")):
        summary[name] = full_batch[f"{metric}_mean"].to_numpy() / summary[f"{metric}_mean"]
    return summary


def finished_runs(study: Path) -> tuple[list[dict[str, Any]], list[Path]]:
    """Find the runs, ablations included, that have finished in a study's folder."""
    runs, files = [], []
    for file in sorted(study.glob("**/seed-*/metrics.json")):
        *place, dataset, scheme, kernel, seed, _ = file.relative_to(study).parts
        if place[:1] in (["runs"], ["ablations"]) and seed.removeprefix("seed-").isdecimal():
            run = {"dataset": dataset, "scheme": scheme, "kernel": kernel, "ablation": "/".join(place[1:])}
            runs.append(run | {"seed": int(seed.removeprefix("seed-"))})
            files.append(file)
    return runs, files


def main(job: Any) -> None:
    """Write the tables of a rule."""
    runs = runs_table(job.params.runs, job.input.metrics)
    runs.to_csv(job.output.runs, index=False)
    if job.output.get("summary"):
        summarise(runs, job.params.runs).to_csv(job.output.summary, index=False)
    Path(job.output.record).write_text(json.dumps(job.params.record, indent=2) + "\n")


def command() -> None:
    """Print the summary of what is finished, and write both tables where they are wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path, help="folder of a study, such as results/laptop")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write runs.csv and summary.csv there")
    options = parser.parse_args()
    if options.out and options.out.resolve() == options.study.resolve():
        sys.exit(f"summarise: {options.out} is the study, whose tables Snakemake writes: choose another")
    runs = runs_table(*finished_runs(options.study))
    study = runs[runs["ablation"] == ""]
    if study.empty:
        sys.exit(f"summarise: {options.study} has no finished run: give the folder of a study")
    # A seed that any cell has is expected of all that have begun.
    cells = study[CELL].drop_duplicates().to_dict("records")
    expected = [cell | {"seed": seed} for cell, seed in itertools.product(cells, sorted(set(study["seed"])))]
    summary = summarise(study, expected)
    scores = [f"{name}_mean" for name in (*HEADLINES, "test_log_likelihood", "runtime_s")]
    shown = [name for name in scores if summary[name].notna().any()]
    print(summary[[*SHOWN, *shown]].to_string(index=False))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        runs.to_csv(options.out / "runs.csv", index=False)
        summary.to_csv(options.out / "summary.csv", index=False)


run_script(main, globals())
if __name__ == "__main__" and "snakemake" not in globals():
    command()
