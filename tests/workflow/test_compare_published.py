"""The comparison with the published table, on tables whose outcome is known."""

import subprocess
import sys

import pandas as pd
import pytest
from compare_published import (
    FAIL,
    NOT_RUN,
    OPEN,
    PASS,
    check_cell,
    check_claim,
    compare,
    implausible,
    read_study,
    report,
)
from lib.claims import Study, same_order
from lib.published import PUBLISHED
from lib.tables import read_cells

SCRIPT = PUBLISHED.parents[1] / "scripts" / "compare_published.py"
RUNS_HEADER = "dataset,scheme,kernel,seed,test_accuracy,test_log_likelihood,gradient_evaluations"


def command(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def published():
    return read_cells(PUBLISHED)


@pytest.fixture
def same(published):
    """A study that found exactly what was published, with full batch's cost far above the others'."""
    cells = published.assign(gradient_evaluations_mean=0.0, speedup_seconds=0.0).sort_index()
    for dataset, scheme, kernel in cells.index:
        key = (dataset, scheme, kernel)
        gradients = {"full_batch": {"ld": 8.4, "hmc": 9.0}[kernel], "constant_to_refine": 1.0}.get(
            scheme, 2.0
        )
        cells.loc[key, "gradient_evaluations_mean"] = gradients
        seconds = published.at[(dataset, "full_batch", kernel), "runtime_s_mean"]
        cells.loc[key, "speedup_seconds"] = seconds / published.at[key, "runtime_s_mean"] + 1e-9
    return cells


def outcomes(checks):
    return {check.what: check.outcome for check in checks}


def test_published_table_passes_against_itself(same, published):
    checks = compare(Study(same, published))
    assert {check.outcome for check in checks} == {PASS}
    assert report(checks).endswith("54 pass, 0 FAIL, 0 open, 0 not run")


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
    same.at[key, f"{metric}_mean"] = value
    assert check_cell(same, published, key, metric).outcome == outcome


def test_a_cell_that_was_not_run_never_passes(same, published):
    same = same.drop(index=("mnist", "full_batch", "ld"))
    same.at[("mnist", "constant", "ld"), "test_accuracy_mean"] = float("nan")
    found = outcomes(compare(Study(same, published)))
    assert found["mnist full_batch ld test_accuracy"] == NOT_RUN
    assert found["mnist full_batch ld test_log_likelihood"] == NOT_RUN
    assert found["mnist constant ld test_accuracy"] == NOT_RUN
    assert FAIL not in found.values()
    assert {check.outcome for check in compare(Study(same[:0], published))} == {NOT_RUN}


def test_a_cell_says_how_many_seeds_it_rests_on(same, published):
    key = ("mnist", "constant", "ld")
    same = same.assign(n_seeds=1)
    same.loc[key, "n_seeds"] = 2
    check = check_cell(same, published, key, "test_accuracy")
    assert (check.found, check.seeds) == ("92.46 (+0.00)", "2")


def test_our_spread_stands_beside_the_published_one_and_cells_that_chose_are_marked(same, published):
    key = ("mnist", "constant", "ld")
    same.at[key, "test_accuracy_std"] = 0.127
    check = check_cell(same, published, key, "test_accuracy")
    assert (check.sd, check.published_sd, check.chose) == ("0.13", "0.01", "chose")
    assert check_cell(same, published, ("mnist", "linear", "ld"), "test_accuracy").chose == ""


def test_the_report_names_the_spreads_of_one_test_image(published):
    """MNIST, LD: constant and full batch have 0.01 %; the others 0.10 to 0.20."""
    text = implausible(published)
    assert "mnist constant ld has 0.01 beside 0.003; mnist full_batch ld has 0.01 beside 0.002." in text
    assert "Other schemes there have 0.1 to 0.2 beside 0.003 to 0.005" in text
    assert implausible(published.assign(test_accuracy_std=0.011)) == ""


REFINE = "constant-to-refine close to full batch, cheaper"


@pytest.mark.parametrize(
    ("key", "column", "value", "claim"),
    [
        (("mnist", "linear", "ld"), "test_accuracy_mean", 98.2, "HMC above LD in accuracy"),
        (("mnist", "linear", "ld"), "test_log_likelihood_mean", -0.06, "HMC above LD in log-likelihood"),
        (("mnist", "constant", "ld"), "test_accuracy_mean", 93.3, "schemes in the published order"),
        (("mnist", "constant_to_refine", "hmc"), "test_accuracy_mean", 96.9, REFINE),
        (("mnist", "constant_to_refine", "hmc"), "gradient_evaluations_mean", 1.81, REFINE),
        (
            ("mnist", "constant_to_refine", "ld"),
            "speedup_seconds",
            6.9,
            "full batch / constant-to-refine, seconds",
        ),
        (("fashion_mnist", "constant", "hmc"), "speedup_seconds", 24.4, "full batch / constant, seconds"),
    ],
)
def test_a_claim_fails_when_one_cell_contradicts_it(same, published, key, column, value, claim):
    same.at[key, column] = value
    assert outcomes(compare(Study(same, published)))[claim] == FAIL


def test_order_counts_only_pairs_that_the_published_spread_separates(published):
    """LD on MNIST: full and linear tie at 93.14, so no order of theirs can be right or wrong."""
    keys = [("mnist", scheme, "ld") for scheme in ("full_batch", "linear", "constant")]
    assert same_order(Study(published.loc[keys[:2]], published)).holds == []
    assert same_order(Study(published.loc[keys], published)).holds == [True, True]


def test_an_order_within_the_spread_over_our_seeds_is_open_and_never_passes(published):
    """Published, MNIST, LD: full batch 93.14, constant 92.46; as far apart as 0.68."""
    keys = [("mnist", scheme, "ld") for scheme in ("full_batch", "constant")]
    for spread, outcome in ((0.33, PASS), (0.35, OPEN)):
        ours = published.loc[keys].assign(test_accuracy_std=spread)
        assert check_claim(same_order(Study(ours, published))).outcome == outcome
        ours.at[keys[0], "test_accuracy_std"] = float("nan")  # one seed: as wide as the other scheme
        claim = same_order(Study(ours, published))
        assert (check_claim(claim).outcome, claim.n_open) == (outcome, int(outcome == OPEN))
    ours = published.loc[keys].assign(test_accuracy_std=float("nan"))
    assert check_claim(same_order(Study(ours, published))).outcome == OPEN


def test_schemes_are_compared_over_the_seeds_that_both_have(tmp_path):
    """Seed 0 is lucky: beside the mean of both seeds, full batch's one run would look better than it is."""
    rows = [("constant", 0, 93.0), ("constant", 1, 91.0), ("full_batch", 0, 92.5), ("linear", 2, 99.0)]
    lines = [f"mnist,{scheme},ld,{seed},{accuracy},-1,1" for scheme, seed, accuracy in rows]
    means = [("constant", 92.0), ("full_batch", 92.5), ("linear", 99.0)]
    cells = [f"mnist,{scheme},ld,{mean},0.1" for scheme, mean in means]
    header = "dataset,scheme,kernel,test_accuracy_mean,test_accuracy_std"
    (tmp_path / "summary.csv").write_text("\n".join([header, *cells]) + "\n")
    assert same_order(read_study(tmp_path / "summary.csv")).holds == [True, True]
    (tmp_path / "runs.csv").write_text("\n".join([RUNS_HEADER, *lines]) + "\n")
    # Linear has no seed in common with the others.
    assert same_order(read_study(tmp_path / "summary.csv")).holds == [False]


@pytest.mark.parametrize(("accuracy", "drop", "code"), [(80.0, 0, 1), (92.46, 0, 0), (92.46, 1, 3)])
def test_the_command_prints_writes_and_exits_with_its_code(same, tmp_path, accuracy, drop, code):
    summary, written = tmp_path / "summary.csv", tmp_path / "deep" / "compare.csv"
    same.at[("mnist", "constant", "ld"), "test_accuracy_mean"] = accuracy
    same[: len(same) - drop].to_csv(summary)
    done = command(summary, "--csv", written)
    assert done.returncode == code, done.stderr
    assert f"{accuracy:.2f} ({accuracy - 92.46:+.2f})" in done.stdout
    assert len(pd.read_csv(written)) == 54


@pytest.mark.parametrize("name", ["summary.csv", "runs.csv"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "No columns"),
        ("a,b\n1,2\n", "'dataset'"),
        (f"{RUNS_HEADER},test_accuracy_mean\nmnist,constant,ld,0,high,1,1,high\n", "'high'"),
        ("\xff", "utf-8"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(same, tmp_path, name, text, message):
    same.to_csv(tmp_path / "summary.csv")
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    done = command(tmp_path / "summary.csv")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and message in done.stderr and name in done.stderr


def test_a_missing_file_is_refused_in_one_line(tmp_path):
    done = command(tmp_path / "no.csv")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no.csv" in done.stderr
