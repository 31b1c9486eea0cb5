"""The command: a good run keeps the contract of its files, and says how it goes."""

import csv
import fcntl
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import assert_refused, call, make_options
from helpers.results import RESULTS, contents, files

pytestmark = pytest.mark.system

SCRIPT = Path(sys.executable).with_name("smcda")
TRACE_HEADER = (
    "iteration,batch_size,n_batches,beta,ess,resampled,unique_ancestors,log_likelihood,energy_error,"
    "gradient_evaluations,runtime_s,test_log_likelihood,test_accuracy"
)
METRICS_KEYS = {
    "dataset", "scheme", "kernel", "seed", "n_parameters", "particles", "iterations", "test_log_likelihood",
    "test_accuracy", "ece", "brier", "predictive_entropy", "disagreement", "runtime_s", "compile_s",
    "evaluation_s", "gradient_evaluations", "log_evidence", "peak_memory_mb", "device", "versions", "resumed",
    "machine", "python", "commit", "fingerprint",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(data, cache, shared):
    """The folder of a tiny run, quietly made by one of the processes, and what it printed."""
    out, printed = shared / "finished" / "run", shared / "printed.json"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            result = call(*make_options(data, cache, out, save_posterior=True, quiet=True))
            printed.write_text(json.dumps(result))
    return out, json.loads(printed.read_text())


def only_doubts(stderr):
    """Whether nothing is printed but what makes the result doubtful, which quiet does not silence."""
    return all(
        line.startswith(("smcda: all 3 particles descend", "smcda: a move ")) for line in stderr.splitlines()
    )


def test_quiet_prints_nothing_and_leaves_just_the_results(finished):
    out, printed = finished
    assert printed[:2] == [0, ""] and only_doubts(printed[2])
    assert files(out) == RESULTS


def test_metrics_hold_every_key_with_a_possible_value(finished):
    metrics = json.loads((finished[0] / "metrics.json").read_text())
    assert METRICS_KEYS - set(metrics) == set()
    asked = {"dataset": "small", "scheme": "linear", "kernel": "hmc", "seed": 0, "n_parameters": 61_706}
    asked |= {"particles": 3, "iterations": 4, "log_evidence": None}
    assert {key: metrics[key] for key in asked} == asked
    ranges = {"test_accuracy": 100, "ece": 1, "brier": 2, "predictive_entropy": math.log(10)}
    ranges |= {"disagreement": 2 / 3 + 1e-6, "runtime_s": 60, "compile_s": 300, "evaluation_s": 60}
    assert all(0 <= metrics[key] <= most for key, most in ranges.items()), metrics
    assert -20 < metrics["test_log_likelihood"] < 0
    assert metrics["peak_memory_mb"] > 50
    assert {"smcda", "jax", "python"} <= set(metrics["versions"])
    # 20, 40, 60, 60 images, three gradients each; 20 at the start and twice another 20 as they arrive.
    assert metrics["gradient_evaluations"] == 3 * (3 * (20 + 40 + 60 + 60) + 20 + 20 + 20)


def test_the_trace_has_the_promised_columns_and_a_row_per_iteration(finished):
    lines = (finished[0] / "trace.csv").read_text().splitlines()
    assert lines[0] == TRACE_HEADER
    rows = list(csv.DictReader(lines))
    column = {name: [row[name] for row in rows] for name in TRACE_HEADER.split(",")}
    assert column["iteration"] == ["0", "1", "2", "3"]
    assert column["batch_size"] == ["20", "40", "60", "60"]
    assert column["n_batches"] == ["1", "2", "3", "3"]
    assert column["beta"] == ["1.0"] * 4
    assert column["gradient_evaluations"] == ["240", "660", "1260", "1800"]
    assert set(column["resampled"]) <= {"0", "1"}
    assert all(1 <= float(ess) <= 3.0001 for ess in column["ess"])
    assert all(1 <= int(n) <= 3 for n in column["unique_ancestors"])
    assert all(-20 < float(value) < 0 for value in column["log_likelihood"])
    seconds = [float(value) for value in column["runtime_s"]]
    assert seconds == sorted(seconds) and seconds[0] > 0
    metrics = json.loads((finished[0] / "metrics.json").read_text())
    assert metrics["gradient_evaluations"] == int(column["gradient_evaluations"][-1])
    assert metrics["runtime_s"] == pytest.approx(seconds[-1])
    for name in ("test_log_likelihood", "test_accuracy"):
        assert [bool(cell) for cell in column[name]] == [False, False, True, True]
        assert float(column[name][-1]) == metrics[name]


def test_the_posterior_is_weighted_particles(finished):
    with np.load(finished[0] / "posterior.npz") as posterior:
        assert posterior["particles"].shape == (3, 61_706)
        assert np.isfinite(posterior["particles"]).all()
        assert posterior["weights"].shape == (3,) and posterior["weights"].min() >= 0
        assert posterior["weights"].sum() == pytest.approx(1, abs=1e-5)


def test_the_installed_command_repeats_a_run_and_tells_how_it_goes(finished, data, cache, tmp_path):
    arguments = make_options(data, cache, tmp_path / "run")
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "run")[:2] == contents(finished[0])[:2]
    assert not (tmp_path / "run" / "posterior.npz").exists()
    assert done.stdout.startswith("test accuracy ") and str(tmp_path / "run") in done.stdout
    lines = done.stderr.splitlines()
    assert lines[0] == "small linear hmc seed 0"
    doubts = list(json.loads((tmp_path / "run" / "metrics.json").read_text())["diagnostics"].values())
    assert doubts and lines[-len(doubts) :] == [f"smcda: {doubt}" for doubt in doubts]
    assert lines[-len(doubts) - 1].startswith("iteration 4/4  M 60  beta 1.00  J_eff ")
    assert "\x1b" not in done.stderr and "\r" not in done.stderr


def test_a_finished_run_is_replaced_only_when_asked(finished, data, cache, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    for name in ("metrics.json", "trace.csv", "posterior.npz"):
        (out / name).write_text(f"old {name}")
    assert_refused(call(*make_options(data, cache, out, seed=1)), out, "--overwrite")
    assert all((out / name).read_text() == f"old {name}" for name in ("metrics.json", "trace.csv"))
    code, stdout, stderr = call(*make_options(data, cache, out, seed=1, overwrite=True, quiet=True))
    assert (code, stdout) == (0, "") and only_doubts(stderr)
    assert files(out) == ["metrics.json", "trace.csv"]
    # Another seed: other particles, other data order, other results.
    (metrics, rows, _), (other_metrics, other_rows, _) = contents(out), contents(finished[0])
    assert metrics["seed"] == 1 and rows != other_rows
    assert metrics["test_log_likelihood"] != other_metrics["test_log_likelihood"]


def test_a_run_that_diverges_says_when_and_what_to_do(data, cache, tmp_path):
    out = tmp_path / "run"
    code, printed, err = call(*make_options(data, cache, out, step_size=1e20, quiet=True))
    assert (code, printed) == (3, "")
    assert err.count("\n") == 1
    assert "iteration 0" in err and "h = 1e+20" in err and "lower it" in err
    assert files(out) == []
    # What `smcda watch` reads tells how it ended.
    assert json.loads((out / ".status.json").read_text())["state"] == "diverged"


def test_a_run_with_batch_normalisation_is_native_too(data, cache, tmp_path):
    options = make_options(
        data, cache, tmp_path / "run", model="fashion_cnn", batch_norm=True, gradients="native"
    )
    assert call(*options)[0] == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["gradients"], metrics["batch_norm"]) == ("native", True)


def test_a_run_with_a_prior_of_its_own_scale_is_another_run(data, cache, tmp_path, finished):
    out = tmp_path / "run"
    code, stdout, stderr = call(*make_options(data, cache, out, prior_scale="fan_in", quiet=True))
    assert (code, stdout) == (0, "") and only_doubts(stderr)
    (metrics, rows, _), (other_metrics, other_rows, _) = contents(out), contents(finished[0])
    assert (metrics["prior_scale"], other_metrics["prior_scale"]) == ("fan_in", 0.1)
    assert rows[1] != other_rows[1]
