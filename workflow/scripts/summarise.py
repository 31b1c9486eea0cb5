"""All runs as one table (`runs.csv`), and mean and spread over seeds (`summary.csv`).

A run that is not there is named in the column `missing_seeds` of its group; nothing is averaged over
fewer seeds without saying so. What was read is remembered beside the tables with each file's size and
date, so that a study of thousands that grows or is mended opens only what is new.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from smcda._io import write_text

GROUP = ["dataset", "scheme", "kernel"]
METRICS = [
    "test_log_likelihood",
    "test_accuracy",
    "ece",
    "brier",
    "predictive_entropy",
    "disagreement",
    "runtime_s",
    "compile_s",
    "evaluation_s",
    "gradient_evaluations",
]
RUN_COLUMNS = [
    *GROUP,
    "seed",
    "network",
    "n_parameters",
    "particles",
    "iterations",
    "n_train",
    "n_test",
    *METRICS,
    "log_evidence",
    "peak_memory_mb",
    "device",
]


MEMORY = ".runs_read.json"
"""Beside `runs.csv`; may be deleted at any time."""


def read_runs(files: list[Path], memory: Path) -> list[dict[str, Any]]:
    """What `runs.csv` says of every finished run, opening only files that changed since last time."""
    known = _remembered(memory)
    rows, seen = [], {}
    for file in files:
        status = file.stat()
        stamp = [status.st_mtime_ns, status.st_size]
        old_stamp, row = known.get(str(file), (None, {}))
        if old_stamp != stamp:
            metrics = json.loads(file.read_text())
            row = {name: metrics[name] for name in RUN_COLUMNS}
        seen[str(file)] = (stamp, row)
        rows.append(row)
    write_text(memory, json.dumps({"columns": RUN_COLUMNS, "files": seen}))
    return rows


def _remembered(memory: Path) -> dict[str, Any]:
    """What was read last time; nothing if there was no last time or other columns were wanted then."""
    if not memory.exists():
        return {}
    try:
        content = json.loads(memory.read_text())
    except json.JSONDecodeError:
        return {}
    return content["files"] if content["columns"] == RUN_COLUMNS else {}


def runs_table(metrics: list[dict[str, Any]]) -> pd.DataFrame:
    """One row a run, in the order given."""
    return pd.DataFrame([{name: run[name] for name in RUN_COLUMNS} for run in metrics], columns=RUN_COLUMNS)


def summarise(runs: pd.DataFrame, expected: list[dict[str, Any]]) -> pd.DataFrame:
    """One row a dataset x scheme x kernel: means, standard deviations, speed-ups over full batch."""
    rows = []
    seeds_of: dict[tuple[str, ...], list[int]] = {}
    for run in expected:
        seeds_of.setdefault(tuple(run[name] for name in GROUP), []).append(run["seed"])
    for group, seeds in seeds_of.items():
        chosen = runs[(runs[GROUP] == list(group)).all(axis=1)]
        finished = set(chosen["seed"])
        missing = [seed for seed in seeds if seed not in finished]
        row: dict[str, Any] = dict(zip(GROUP, group, strict=True))
        row |= {"n_seeds": len(chosen), "missing_seeds": " ".join(map(str, missing))}
        for name in METRICS:
            row |= {f"{name}_mean": chosen[name].mean(), f"{name}_std": chosen[name].std(ddof=1)}
        rows.append(row)
    summary = pd.DataFrame(rows)
    reference = summary[summary["scheme"] == "full_batch"].set_index(["dataset", "kernel"])
    pairs = list(zip(summary["dataset"], summary["kernel"], strict=True))
    for name, metric in (("speedup_seconds", "runtime_s"), ("speedup_gradients", "gradient_evaluations")):
        full_batch = pd.Series([reference[f"{metric}_mean"].get(pair) for pair in pairs], dtype=float)
        summary[name] = full_batch / summary[f"{metric}_mean"]
    return summary


def write_summary(
    expected: list[dict[str, Any]], files: list[Path], runs_file: Path, summary_file: Path
) -> list[dict[str, Any]]:
    """Write both tables from the runs that are there; give back those that are not."""
    there = [file.exists() for file in files]
    finished = [file for file, exists in zip(files, there, strict=True) if exists]
    runs = runs_table(read_runs(finished, runs_file.with_name(MEMORY)))
    write_text(runs_file, runs.to_csv(index=False))
    write_text(summary_file, summarise(runs, expected).to_csv(index=False))
    return [run for run, exists in zip(expected, there, strict=True) if not exists]


if "snakemake" in globals():
    job = globals()["snakemake"]
    files = [Path(path) for path in job.input.metrics]
    write_summary(job.params.runs, files, Path(job.output.runs), Path(job.output.summary))
