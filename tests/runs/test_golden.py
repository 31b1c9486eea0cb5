"""Tiny runs of every scheme and kernel repeat the numbers in golden.json.

After a change that is meant to alter results, write the numbers anew and look at the difference:

    python tests/runs/test_golden.py --write

which also prints how far native gradients are from XLA's, where a C++ compiler is installed.
"""

import csv
import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from smcda.cli import main

GOLDEN = Path(__file__).with_name("golden.json")

SCHEMES = ("constant", "full_batch", "constant_to_refine", "linear", "automated", "smooth_data_annealing")
LENET = "--model lenet5 --batch-size 10 --initial-batch 10 --prior-scale 0.04 --step-size 0.008"
# A wider prior, so that likelihoods differ enough between particles for beta to take several steps to 1.
SDA = "--model lenet5 --batch-size 10 --initial-batch 10 --prior-scale 0.1 --step-size 0.02"
# Statistics of a minibatch amplify rounding: single short steps and minibatches of 20 keep it small.
CNN = (
    "--model fashion_cnn --batch-norm --batch-size 20 --initial-batch 20 --prior-scale 0.03 --step-size 0.004"
)
CASES = {
    f"{scheme}-{kernel}": f"{SDA if scheme == 'smooth_data_annealing' else LENET} "
    f"--scheme {scheme} --kernel {kernel}"
    for scheme in SCHEMES
    for kernel in ("ld", "hmc")
} | {"batch_norm": f"{CNN} --scheme linear --kernel ld"}
COMMON = (
    "--seed 1 --particles 5 --iterations 8 --refine-from 0.75 --resampling multinomial "
    "--weight-target current --delta-entropy 1 --beta-restart 0.1 --evaluate-every 4 "
    "--checkpoint-every 0 --device cpu --devices 1 --quiet"
)

EXACT = ("batch_size", "resampled", "unique_ancestors", "gradient_evaluations")
# Native gradients sum in another order than XLA's, as another processor may. Over all cases they differ by at
# most 7e-6 in beta, 4e-5 in ess, 3e-6 in log_likelihood and 7e-7 in test_log_likelihood, relatively, and not
# at all in the exact columns. The tolerances are more than ten times as wide. They are narrow enough to see
# half a leapfrog step's momentum off by 0.1 %, which changes ess by about 1 %.
TOLERANCE = {"beta": 1e-4, "ess": 5e-4, "log_likelihood": 5e-5, "test_log_likelihood": 1e-5}
READ = dict.fromkeys(EXACT, int) | dict.fromkeys(TOLERANCE, float)


def make_data(folder):
    path = folder / "images.npz"
    assert main(["data", "mnist", "--bundled", "--train", "60", "--test", "30", "--out", str(path)]) == 0
    return path


def trace_of(case, data, out, cache, gradients="xla"):
    """Run one case; the columns of its trace that golden.json holds, without empty cells."""
    files = ["--data", str(data), "--out", str(out), "--compilation-cache", str(cache)]
    assert main(["run", *CASES[case].split(), *COMMON.split(), "--gradients", gradients, *files]) == 0
    with (out / "trace.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    return {name: [number(row[name]) for row in rows if row[name]] for name, number in READ.items()}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("golden"))


QUICK = ("linear-hmc", "smooth_data_annealing-ld")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case not in QUICK)) for case in CASES]
)
def test_a_tiny_run_repeats_the_golden_numbers(case, data, tmp_path, cache):
    expected = json.loads(GOLDEN.read_text())[case]
    trace = trace_of(case, data, tmp_path / "out", cache)
    for name in EXACT:
        assert trace[name] == expected[name], name
    if not case.startswith("smooth_data_annealing"):
        assert trace["beta"] == expected["beta"]
    for name, tolerance in TOLERANCE.items():
        assert trace[name] == pytest.approx(expected[name], rel=tolerance, abs=0), name


def test_the_golden_runs_differ_from_each_other_and_resample():
    golden = json.loads(GOLDEN.read_text())
    assert golden.keys() == CASES.keys()
    assert len({json.dumps(trace["log_likelihood"]) for trace in golden.values()}) == len(CASES)
    assert all(any(trace["resampled"]) and not all(trace["resampled"]) for trace in golden.values())
    assert {count for trace in golden.values() for count in trace["unique_ancestors"]} >= {1, 2, 3, 5}
    # Rounding cannot change a decision to resample, which is made at ess < 5 / 2.
    assert (
        min(abs(ess / 2.5 - 1) for trace in golden.values() for ess in trace["ess"]) > 20 * TOLERANCE["ess"]
    )
    for kernel in ("ld", "hmc"):
        assert set(golden[f"smooth_data_annealing-{kernel}"]["beta"]) > {0.1, 1}


def write():
    golden, apart = {}, dict.fromkeys(TOLERANCE, 0.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, cache = make_data(folder), folder / "compiled"
        for case in CASES:
            trace = golden[case] = trace_of(case, data, folder / case, cache)
            if shutil.which("c++") is None:
                continue
            native = trace_of(case, data, folder / f"{case}-native", cache, "native")
            assert all(native[key] == trace[key] for key in EXACT), f"{case}: choose a less chaotic run"
            for key in apart:
                pairs = zip(trace[key], native[key], strict=True)
                apart[key] = max(apart[key], *(abs(b / a - 1) for a, b in pairs))
    blocks = []
    for case, trace in golden.items():
        columns = ",\n".join(f"    {json.dumps(key)}: {json.dumps(column)}" for key, column in trace.items())
        blocks.append(f"  {json.dumps(case)}: {{\n{columns}\n  }}")
    GOLDEN.write_text("{\n" + ",\n".join(blocks) + "\n}\n")
    print("largest relative difference of native gradients:", apart)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
