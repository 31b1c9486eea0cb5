"""`smcda baseline`: the files of any run, from images and a network of the study, native gradients too."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

SCRIPT = Path(sys.executable).with_name("smcda")
SMALL = {
    "deep_ensemble": ["--epochs", 4, "--search-particles", 2, "--weight-decay", 0, "--weight-decay", 1],
    "sghmc": ["--chains", 2, "--cycle-epochs", 2, "--learning-rate", 0.03, "--prior-scale", "fan_in"],
}
CLOCKS = {"runtime_s", "compile_s", "evaluation_s", "search_s", "wall_s", "peak_memory_mb"}


def smcda(folder, *words):
    return subprocess.run([SCRIPT, *map(str, words)], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("baselines")
    for name in ("mnist", "fashion_mnist"):
        sizes = ("--train", 60, "--test", 40)
        assert smcda(folder, "data", name, "--bundled", *sizes, "--out", f"{name}.npz").returncode == 0
    return folder


def baseline(folder, method, out, *more):
    words = ["baseline", method, "--data", "mnist.npz", "--model", "lenet5", "--out", out, "--particles", 4]
    words += ["--ood", "fashion_mnist.npz", "--device", "cpu", "--threads", 1, *SMALL[method], *more]
    return smcda(folder, *words)


@pytest.mark.parametrize("method", SMALL)
def test_the_same_command_gives_the_same_files_and_they_are_those_of_a_run(folder, method):
    for out in ("one", "two"):
        done = baseline(folder, method, f"{method}-{out}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("test accuracy ") and "s of the chosen run" in done.stdout
    found = [json.loads((folder / f"{method}-{out}" / "metrics.json").read_text()) for out in ("one", "two")]
    one, two = ({name: value for name, value in each.items() if name not in CLOCKS} for each in found)
    assert one == two
    assert one["scheme"] == one["fingerprint"]["method"] == method
    assert one["gradients"] == "native" and one["ood"] == "fashion_mnist"
    assert {"test_accuracy", "test_log_likelihood", "ece", "brier"} < one.keys()
    assert 0 <= one["ood_auroc_entropy"] <= 1 and 0 <= one["ood_auroc_mutual_information"] <= 1
    assert ("prior_scale" in one) == (method == "sghmc")
    with (folder / f"{method}-one" / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert int(rows[-1]["gradient_evaluations"]) == one["gradient_evaluations"]
    assert float(rows[-1]["test_accuracy"]) == one["test_accuracy"]


def test_xla_and_native_gradients_agree(folder):
    scores = []
    for code in ("native", "xla"):
        # Few steps, so that rounding has not grown.
        done = baseline(folder, "sghmc", f"by-{code}", "--validation", 0, "--gradients", code)
        assert done.returncode == 0, done.stderr
        scores.append(json.loads((folder / f"by-{code}" / "metrics.json").read_text()))
    assert {each["gradients"] for each in scores} == {"native", "xla"}
    assert scores[0]["test_log_likelihood"] == pytest.approx(scores[1]["test_log_likelihood"], abs=1e-3)


@pytest.mark.parametrize(
    ("method", "more", "named"),
    [
        ("deep_ensemble", ["--prior-scale", "0.1"], "unrecognized arguments: --prior-scale 0.1"),
        ("deep_ensemble", ["--weight-decay", "much"], "invalid float value: 'much'"),
        ("sghmc", ["--particles", "5"], "particles is 5, but must be a multiple of chains (2)"),
        ("sghmc", ["--ood", "nothing.npz"], "nothing.npz"),
    ],
)
def test_bad_options_are_refused_in_one_line(folder, method, more, named):
    done = baseline(folder, method, "refused", *more)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert named in done.stderr
    assert not (folder / "refused").exists()
