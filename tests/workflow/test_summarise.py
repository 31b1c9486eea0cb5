"""The tables of all runs: what a row holds, means over seeds, and what is said of runs that are not there."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import summarise

SCRIPT = Path(summarise.__file__)
RUNS = [{"dataset": "mnist", "scheme": "linear", "kernel": "ld", "seed": seed} for seed in range(3)]


def finish(study, run, accuracy, ablation=None, **more):
    """Write the metrics of a finished run where the workflow would."""
    place = study / ("runs" if ablation is None else f"ablations/{ablation}")
    folder = place / run["dataset"] / run["scheme"] / run["kernel"] / f"seed-{run['seed']}"
    folder.mkdir(parents=True)
    metrics = dict.fromkeys(summarise.METRICS, 1.0) | run | {"test_accuracy": accuracy, "n_train": 100}
    settings = {"step_size": 0.03, "resampling": "systematic"}
    provenance = {"versions": {"smcda": "1", "jax": "2", "flax": "3"}, "machine": "a", "commit": "c"}
    file = folder / "metrics.json"
    file.write_text(json.dumps(metrics | {"settings": settings} | provenance | more))
    return file


@pytest.fixture
def study(tmp_path):
    for run in RUNS:
        finish(tmp_path, run, accuracy=90.0 + run["seed"])
    return tmp_path


def table_of(study):
    return summarise.runs_table(*summarise.finished_runs(study))


def command(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)


def test_a_row_holds_what_the_run_recorded_of_itself(study):
    row = table_of(study).iloc[0]
    assert list(row.index) == summarise.RUN_COLUMNS
    recorded = {
        "seed": 0, "ablation": "", "test_accuracy": 90.0, "n_train": 100, "step_size": 0.03,
        "resampling": "systematic", "smcda_version": "1", "flax_version": "3", "machine": "a", "commit": "c",
    }  # fmt: skip
    assert {name: row[name] for name in recorded} == recorded
    assert row["python"] is None


def test_the_path_says_which_run_it_is_and_not_the_file(tmp_path):
    file = finish(tmp_path, RUNS[0] | {"dataset": "fashion_mnist"}, 80.0, dataset="mnist", seed=7)
    row = table_of(tmp_path).iloc[0]
    assert (row["dataset"], row["seed"]) == ("fashion_mnist", 0)
    assert json.loads(file.read_text())["dataset"] == "mnist"


def test_the_summary_averages_over_seeds_and_names_the_missing(study):
    (study / "runs/mnist/linear/ld/seed-1/metrics.json").unlink()
    full = [run | {"scheme": "full_batch"} for run in RUNS[:1]]
    finish(study, full[0], 50.0, gradient_evaluations=8.0)
    summary = summarise.summarise(table_of(study), RUNS + full).set_index("scheme")
    linear = summary.loc["linear"]
    assert (linear["n_seeds"], linear["missing_seeds"]) == (2, "1")
    assert linear["test_accuracy_mean"] == 91.0
    assert linear["test_accuracy_std"] == pytest.approx(2**0.5)
    assert linear["speedup_gradients"] == 8.0


def test_whatever_scores_the_runs_have_are_averaged(tmp_path):
    for run in RUNS[:2]:
        finish(tmp_path, run, accuracy=90.0)
        own = run | {"dataset": "wine"}
        file = finish(tmp_path, own, accuracy=0.0, test_rmse=2.0 + own["seed"], pinball=1, devices=1)
        metrics = json.loads(file.read_text())
        lacks = ("test_accuracy", "ece", "brier")
        file.write_text(json.dumps({name: value for name, value in metrics.items() if name not in lacks}))
    expected = [run | {"dataset": dataset} for dataset in ("mnist", "wine") for run in RUNS[:2]]
    summary = summarise.summarise(table_of(tmp_path), expected).set_index("dataset")
    assert summary.loc["wine", "test_rmse_mean"] == 2.5
    assert summary.loc["wine", "pinball_mean"] == 1.0
    assert summary.loc["mnist", "test_accuracy_mean"] == 90.0
    assert "devices_mean" not in summary
    absent = [("wine", "test_accuracy"), ("wine", "ece"), ("mnist", "pinball")]
    assert all(pd.isna(summary.loc[dataset, f"{name}_mean"]) for dataset, name in absent)
    shown = command(tmp_path).stdout
    assert "test_rmse_mean" in shown and "test_accuracy_mean" in shown


def test_the_model_is_the_network_of_the_table(tmp_path):
    finish(tmp_path, RUNS[0], 90.0, model="my_models.py:mlp")
    assert table_of(tmp_path)["network"].tolist() == ["my_models.py:mlp"]


def test_the_command_summarises_what_is_there_and_leaves_the_study_alone(study, tmp_path_factory):
    finish(study, RUNS[0], 10.0, ablation="particles_2")
    finish(study, RUNS[0] | {"kernel": "hmc"}, 70.0)
    before = sorted(study.rglob("*"))
    out = tmp_path_factory.mktemp("out")
    done = command(study, "--out", out)
    assert done.returncode == 0, done.stderr
    runs, summary = pd.read_csv(out / "runs.csv"), pd.read_csv(out / "summary.csv").set_index("kernel")
    assert runs["ablation"].dropna().tolist() == ["particles_2"]
    assert len(runs) == 5
    assert summary.loc["ld", "test_accuracy_mean"] == 91.0
    assert (summary.loc["hmc", "n_seeds"], summary.loc["hmc", "missing_seeds"]) == (1, "1 2")
    assert "91.0" in done.stdout
    assert sorted(study.rglob("*")) == before


def test_the_command_refuses_to_write_over_the_study_or_to_summarise_nothing(study, tmp_path_factory):
    assert "choose another" in command(study, "--out", study).stderr
    empty = tmp_path_factory.mktemp("empty")
    refused = command(empty)
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        f"summarise: {empty} has no finished run: give the folder of a study"
    ]
