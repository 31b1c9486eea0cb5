"""The command: bad input is one line and exit code 2, a good run keeps the contract of its files."""

import contextlib
import csv
import fcntl
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.results import RESULTS, contents, files

from smcda.cli import main

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


def call(*arguments):
    """Exit code, standard output and standard error of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """60 training and 30 test images of the bundled subset."""
    path = tmp_path_factory.mktemp("data") / "bundled.npz"
    assert call("data", "mnist", "--bundled", "--out", path) == (0, "", "")
    with np.load(path) as bundled:
        sizes = {"train_x": 60, "train_y": 60, "test_x": 30, "test_y": 30}
        return {name: bundled[name][:size] for name, size in sizes.items()}


@pytest.fixture(scope="module")
def data(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(path, **arrays)
    return path


def make_options(data, cache, out, /, **changes):
    """Build arguments of a tiny run; a change to None leaves an option out, one to True makes it a flag."""
    options = {
        "data": data, "model": "lenet5", "scheme": "linear", "kernel": "hmc", "seed": 0, "out": out,
        "particles": 3, "iterations": 4, "batch_size": 20, "step_size": 0.01, "evaluate_every": 3,
        "compilation_cache": cache,
    } | changes  # fmt: skip
    arguments = ["run"]
    for name, value in options.items():
        if value is not None:
            arguments += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return arguments


def assert_refused(result, *named):
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert err.endswith("\n") and err.count("\n") == 1, err
    for name in named:
        assert str(name) in err


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scheme": "cubic"}, ["scheme", "'cubic'", "linear"]),
        ({"kernel": "nuts"}, ["kernel", "'nuts'", "hmc"]),
        ({"model": "vgg"}, ["model", "'vgg'", "lenet5"]),
        ({"resampling": "bootstrap"}, ["resampling", "'bootstrap'", "systematic"]),
        ({"weight_target": "next"}, ["weight_target", "'next'", "previous"]),
        *[({"step_size": h}, ["step_size", h]) for h in ("0.0", "-0.5", "nan", "inf")],
        ({"particles": 1}, ["particles", "1", "at least 2"]),
        ({"particles": "abc"}, ["--particles", "'abc'"]),
        ({"particles": "2.5"}, ["--particles", "'2.5'"]),
        ({"iterations": 0}, ["iterations", "0"]),
        ({"leapfrog_steps": 0}, ["leapfrog_steps", "0"]),
        ({"kernel": "ld", "leapfrog_steps": 3}, ["leapfrog_steps", "3", "ld"]),
        ({"batch_size": 61}, ["batch_size", "61", "60"]),
        ({"batch_size": 0}, ["batch_size", "0"]),
        ({"initial_batch": 61}, ["initial_batch", "61", "60"]),
        ({"refine_from": 1.5}, ["refine_from", "1.5"]),
        ({"beta_restart": 0}, ["beta_restart", "0"]),
        ({"delta_entropy": -1}, ["delta_entropy", "-1"]),
        ({"evaluate_every": 0}, ["evaluate_every", "0"]),
        ({"batch_norm": True}, ["batch_norm", "lenet5"]),
        *[({"prior_scale": s}, ["prior_scale", s, "1e-06"]) for s in ("0.0", "-0.1", "nan", "inf", "1e-40")],
        *[
            ({"prior_scale": s}, ["prior_scale", s, "2*fan_in"])
            for s in ("0*fan_in", "-2*fan_in", "1e*fan_in")
        ],
        ({"prior_scale": "fan_out"}, ["--prior-scale", "'fan_out'"]),
        ({"prior_scale": "hierarchical", "start": "lecun"}, ["start", "lecun", "hierarchical"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"seed": 2**64}, ["seed", 2**64]),
        ({"seed": "first"}, ["--seed", "'first'"]),
        ({"threads": 0}, ["threads", "0"]),
        *[({name: None}, [f"--{name}"]) for name in ("data", "model", "out")],
    ],
    ids=lambda value: "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_a_bad_option_is_refused_by_its_value(data, cache, tmp_path, changes, named):
    out = tmp_path / "run"
    assert_refused(call(*make_options(data, cache, out, **changes)), *named)
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train_y": np.full(60, 10, np.uint8)}, ["train_y", "10"]),
        ({"test_y": np.arange(30, dtype=np.uint8)}, ["test_y", "29"]),
        ({"train_x": np.zeros((60, 32, 32), np.uint8)}, ["train_x", "(60, 32, 32)"]),
        ({"test_x": np.zeros((29, 28, 28), np.uint8)}, ["test_x", "(29, 28, 28)"]),
        ({"train_x": np.zeros((60, 28, 28))}, ["train_x", "float64"]),
    ],
)
def test_data_of_the_wrong_kind_are_refused(arrays, cache, tmp_path, changes, named):
    path = tmp_path / "wrong.npz"
    np.savez(path, **(arrays | changes))
    assert_refused(call(*make_options(path, cache, tmp_path / "run")), path, *named)
    assert not (tmp_path / "run").exists()


def test_damaged_data_are_refused(data, cache, tmp_path):
    path = tmp_path / "damaged.npz"
    for content in (data.read_bytes()[:5000], b"", b"not an archive"):
        path.write_bytes(content)
        assert_refused(call(*make_options(path, cache, tmp_path / "run")), path)
    path.unlink()
    assert_refused(call(*make_options(path, cache, tmp_path / "run")), path, "No such file")
    assert not (tmp_path / "run").exists()


def test_altered_data_are_refused_with_both_checksums(cache, tmp_path):
    path = tmp_path / "mnist.npz"
    assert call("data", "mnist", "--bundled", "--out", path)[0] == 0
    with np.load(path) as archive:
        contents = dict(archive)
    contents["train_x"] = contents["train_x"].copy()
    contents["train_x"][7, 14, 14] ^= 1
    np.savez(path, **contents)
    code, out, err = call(*make_options(path, cache, tmp_path / "run"))
    assert_refused((code, out, err), path, "altered", contents["sha256"])
    checksums = [word.strip(",;") for word in err.split() if len(word.strip(",;")) == 64]
    assert len(set(checksums)) == 2
    assert not (tmp_path / "run").exists()


def test_an_unknown_dataset_is_refused(tmp_path):
    assert_refused(call("data", "cifar", "--out", tmp_path / "data.npz"), "'cifar'", "mnist")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "run"])
def test_an_output_that_is_a_file_or_beneath_one_is_refused(data, cache, tmp_path, below):
    file = tmp_path / "file"
    file.write_text("kept")
    assert_refused(call(*make_options(data, cache, file / below)), file / below)
    assert file.read_text() == "kept"


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
