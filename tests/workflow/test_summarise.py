"""The summary of all runs: what is read, what is remembered, and what is said of runs that are not there."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "workflow" / "scripts" / "summary.py"
spec = importlib.util.spec_from_file_location("summary", SCRIPT)
assert spec is not None and spec.loader is not None
summary = importlib.util.module_from_spec(spec)
sys.modules["summary"] = summary
spec.loader.exec_module(summary)

RUNS = [{"dataset": "mnist", "scheme": "linear", "kernel": "ld", "seed": seed} for seed in range(3)]


@pytest.fixture
def study(tmp_path):
    """Three finished runs and where their tables go."""
    files = [tmp_path / f"seed-{run['seed']}.json" for run in RUNS]
    for file, run in zip(files, RUNS, strict=True):
        finish(file, run, accuracy=90.0 + run["seed"])
    return files, tmp_path / "runs.csv", tmp_path / "summary.csv"


def finish(file, run, accuracy):
    numbers = dict.fromkeys(summary.RUN_COLUMNS, 1.0)
    file.write_text(json.dumps(numbers | run | {"test_accuracy": accuracy, "more": [1, 2, 3]}))


def accuracies(study):
    return pd.read_csv(study[1])["test_accuracy"].tolist()


def test_a_file_that_has_not_changed_is_not_opened_again(study, monkeypatch):
    files = study[0]
    summary.write_summary(RUNS, *study)
    finish(files[1], RUNS[1], accuracy=50.125)
    opened = []
    read_text = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, **more: opened.append(path) or read_text(path, **more)
    )
    summary.write_summary(RUNS, *study)
    assert [path for path in opened if path in files] == [files[1]]
    assert accuracies(study) == [90.0, 50.125, 92.0]


def test_tables_are_the_same_with_and_without_memory(study):
    summary.write_summary(RUNS, *study)
    first = [file.read_bytes() for file in study[1:]]
    summary.write_summary(RUNS, *study)
    assert [file.read_bytes() for file in study[1:]] == first


def test_a_change_of_the_same_length_is_seen_by_its_date(study):
    files = study[0]
    summary.write_summary(RUNS, *study)
    size = files[0].stat().st_size
    finish(files[0], RUNS[0], accuracy=80.0)
    assert files[0].stat().st_size == size
    os.utime(files[0], ns=(1, 1))
    summary.write_summary(RUNS, *study)
    assert accuracies(study)[0] == 80.0


@pytest.mark.parametrize("damage", ["", "{", '{"columns": ["other"], "files": {}}'])
def test_a_memory_that_can_not_be_used_is_made_anew(study, damage):
    summary.write_summary(RUNS, *study)
    study[1].with_name(summary.MEMORY).write_text(damage)
    summary.write_summary(RUNS, *study)
    assert accuracies(study) == [90.0, 91.0, 92.0]


def test_a_run_that_is_gone_is_forgotten_and_named(study):
    summary.write_summary(RUNS, *study)
    study[0][1].unlink()
    assert summary.write_summary(RUNS, *study) == [RUNS[1]]
    assert accuracies(study) == [90.0, 92.0]
    assert pd.read_csv(study[2])["missing_seeds"].tolist() == [1]
