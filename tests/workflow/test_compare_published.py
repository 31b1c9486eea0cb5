"""The comparison with the published table, on tables whose outcome is known."""

import csv
import subprocess
import sys

import pytest
from compare_published import (
    FAIL,
    NOT_RUN,
    PASS,
    PUBLISHED,
    Study,
    check_cell,
    compare,
    exit_code,
    read_study,
    report,
    same_order,
)
from lib.tables import CELL, read_cells

SCRIPT = PUBLISHED.parents[1] / "scripts" / "compare_published.py"


@pytest.fixture
def published():
    return read_cells(PUBLISHED)


@pytest.fixture
def same(published):
    """A study that found exactly what was published."""
    cells = {key: dict(row) for key, row in published.items()}
    for (dataset, scheme, kernel), row in cells.items():
        full = {"ld": 8.4, "hmc": 9.0}[kernel]
        row["gradient_evaluations_mean"] = str(
            {"full_batch": full, "constant_to_refine": 1.0}.get(scheme, 2.0)
        )
        seconds = float(published[dataset, "full_batch", kernel]["runtime_s_mean"])
        row["speedup_seconds"] = str(seconds / float(row["runtime_s_mean"]) + 1e-9)
    return cells


def outcomes(checks):
    return {check.what: check.outcome for check in checks}


def test_published_table_passes_against_itself(same, published):
    checks = compare(Study(same, published, {}))
    assert {check.outcome for check in checks} == {PASS}
    assert exit_code(checks) == 0
    assert len(checks) == 2 * 24 + 6
    assert report(checks).endswith("54 pass, 0 FAIL, 0 not run")


@pytest.mark.parametrize(
    ("key", "metric", "value", "outcome"),
    [
        # 0.01 published: a point is the larger tolerance.
        (("mnist", "constant", "ld"), "test_accuracy", 92.46 - 0.99, PASS),
        (("mnist", "constant", "ld"), "test_accuracy", 92.46 - 1.01, FAIL),
        # 3 x 0.55 = 1.65 is larger than a point.
        (("fashion_mnist", "constant_to_refine", "ld"), "test_accuracy", 82.99 + 1.64, PASS),
        (("fashion_mnist", "constant_to_refine", "ld"), "test_accuracy", 82.99 + 1.66, FAIL),
        (("mnist", "constant", "hmc"), "test_log_likelihood", -0.081 - 0.0199, PASS),
        (("mnist", "constant", "hmc"), "test_log_likelihood", -0.081 - 0.0201, FAIL),
        # 3 x 0.011 = 0.033.
        (("fashion_mnist", "constant", "hmc"), "test_log_likelihood", -0.345 + 0.0329, PASS),
        (("fashion_mnist", "constant", "hmc"), "test_log_likelihood", -0.345 + 0.0331, FAIL),
    ],
)
def test_tolerance_is_the_larger_of_three_deviations_and_the_least(
    same, published, key, metric, value, outcome
):
    same[key][f"{metric}_mean"] = str(value)
    assert check_cell(same, published, key, metric).outcome == outcome


def test_cell_that_was_not_run_never_passes(same, published):
    del same["mnist", "full_batch", "ld"]
    same["mnist", "constant", "ld"]["test_accuracy_mean"] = ""
    found = outcomes(compare(Study(same, published, {})))
    assert found["mnist full_batch ld test_accuracy"] == NOT_RUN
    assert found["mnist full_batch ld test_log_likelihood"] == NOT_RUN
    assert found["mnist constant ld test_accuracy"] == NOT_RUN
    assert FAIL not in found.values()
    assert exit_code(compare(Study(same, published, {}))) == 3


def test_a_cell_says_how_many_seeds_it_rests_on(same, published):
    key = ("mnist", "constant", "ld")
    same[key]["n_seeds"] = "2"
    assert check_cell(same, published, key, "test_accuracy").found == "92.46 (+0.00) n=2"


def test_empty_study_passes_nothing(published):
    assert {check.outcome for check in compare(Study({}, published, {}))} == {NOT_RUN}


@pytest.mark.parametrize(
    ("key", "column", "value", "claim"),
    [
        (("mnist", "linear", "ld"), "test_accuracy_mean", "97.95", "HMC above LD in accuracy"),
        (("mnist", "linear", "ld"), "test_log_likelihood_mean", "-0.06", "HMC above LD in log-likelihood"),
        (("mnist", "constant", "ld"), "test_accuracy_mean", "93.2", "schemes in the published order"),
        (
            ("mnist", "constant_to_refine", "hmc"),
            "test_accuracy_mean",
            "96.9",
            "constant-to-refine close to full batch, cheaper",
        ),
        (
            ("mnist", "constant_to_refine", "hmc"),
            "gradient_evaluations_mean",
            "1.81",
            "constant-to-refine close to full batch, cheaper",
        ),
        (
            ("mnist", "constant_to_refine", "ld"),
            "speedup_seconds",
            "6.9",
            "full batch / constant-to-refine, seconds",
        ),
        (("fashion_mnist", "constant", "hmc"), "speedup_seconds", "24.4", "full batch / constant, seconds"),
    ],
)
def test_claim_fails_when_one_cell_contradicts_it(same, published, key, column, value, claim):
    same[key][column] = value
    checks = compare(Study(same, published, {}))
    assert outcomes(checks)[claim] == FAIL
    assert exit_code(checks) == 1


def test_order_counts_only_pairs_that_the_published_spread_separates(published):
    """LD on MNIST: full and linear tie at 93.14, so no order of theirs can be right or wrong."""
    two = {key: published[key] for key in (("mnist", "full_batch", "ld"), ("mnist", "linear", "ld"))}
    assert same_order(Study(two, published, {})) == []
    three = two | {("mnist", "constant", "ld"): published["mnist", "constant", "ld"]}
    assert same_order(Study(three, published, {})) == [True, True]


RUNS_HEADER = "dataset,scheme,kernel,seed,test_accuracy,test_log_likelihood,gradient_evaluations"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column 'dataset'"),
        (f"{RUNS_HEADER}\nmnist,constant\n", "differ in length"),
        (f"{RUNS_HEADER}\nmnist,constant,ld,0,high,1,1\nmnist,constant,hmc,0,1,1,1\n", "'high'"),
        ("\xff", "utf-8"),
    ],
)
def test_damaged_runs_beside_a_summary_are_one_line(tmp_path, text, message):
    (tmp_path / "summary.csv").write_bytes(PUBLISHED.read_bytes())
    (tmp_path / "runs.csv").write_bytes(text.encode("latin-1"))
    command = [sys.executable, SCRIPT, tmp_path / "summary.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and message in done.stderr and "runs.csv" in done.stderr


def test_schemes_are_compared_over_the_seeds_that_both_have(published, tmp_path):
    """Seed 0 is lucky: beside the mean of both seeds, full batch's one run would look better than it is."""
    rows = [("constant", 0, 93.0), ("constant", 1, 91.0), ("full_batch", 0, 92.5), ("linear", 2, 99.0)]
    lines = [f"mnist,{scheme},ld,{seed},{accuracy},-1,1" for scheme, seed, accuracy in rows]
    (tmp_path / "runs.csv").write_text("\n".join([RUNS_HEADER, *lines]) + "\n")
    (tmp_path / "summary.csv").write_text("")
    means = {"constant": 92.0, "full_batch": 92.5, "linear": 99.0}
    cells = {("mnist", scheme, "ld"): {"test_accuracy_mean": str(mean)} for scheme, mean in means.items()}
    assert same_order(Study(cells, published, {})) == [True, True]
    # Linear has no seed in common with the others.
    assert same_order(read_study(tmp_path / "summary.csv")._replace(cells=cells)) == [False]


def test_command_prints_writes_and_exits_with_its_code(same, tmp_path):
    summary, written = tmp_path / "summary.csv", tmp_path / "deep" / "compare.csv"
    same["mnist", "constant", "ld"]["test_accuracy_mean"] = "80"
    rows = [dict(zip(CELL, key, strict=True)) | row for key, row in same.items()]
    with summary.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    command = [sys.executable, SCRIPT, summary, "--csv", written]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "80.00 (-12.46)" in done.stdout
    with written.open() as stream:
        assert len(list(csv.DictReader(stream))) == 54
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "no.csv"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no.csv" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 pass, 0 FAIL, 54 not run"),
        ("a,b\n1,2\n", "no column 'dataset'"),
        ("dataset,scheme,kernel\nmnist,constant\n", "differ in length"),
        ("dataset,scheme,kernel,test_accuracy_mean\nmnist,constant,ld,high\n", "'high'"),
        ("\xff", "utf-8"),
    ],
)
def test_a_file_that_is_no_summary_is_one_line(tmp_path, text, message):
    file = tmp_path / "summary.csv"
    file.write_bytes(text.encode("latin-1"))
    done = subprocess.run([sys.executable, SCRIPT, file], capture_output=True, text=True, check=False)
    assert message in done.stdout + done.stderr
    assert done.returncode == (1 if text else 3)
    assert done.stderr.count("\n") == bool(text)
