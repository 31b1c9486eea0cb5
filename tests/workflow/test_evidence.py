"""What is kept of a study: its tables, from made-up runs."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cells import read_cells
from decisions import as_latex
from evidence import (
    MEASURED,
    PUBLISHED,
    RUNS,
    TRIED,
    decisions_table,
    finished,
    kept_summary,
    runs_table,
    traces_table,
    variants_table,
)
from helpers.made_up_study import SCRIPT, keep, make_run, make_study, make_variant
from summary import METRICS
from verify import report, runs_beside, verify


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


def test_runs_say_how_they_were_made(study):
    runs = runs_table(finished([study], RUNS), "abc")
    assert len(runs) == 3
    assert set(runs["commit"]) == {"abc"}
    assert {"machine", "python", "jax_version", "step_size", "particles", "seed", "gradients"} <= set(runs)
    assert runs["machine"].str.contains("cores").all()


def test_of_two_studies_the_later_one_counts_where_both_have_a_run(study, tmp_path):
    later = tmp_path / "later"
    make_run(later, "constant", "ld", 1, test_accuracy=70.0)
    make_run(later, "linear", "ld", 0, test_accuracy=60.0)
    runs = runs_table(finished([study, later], RUNS), "abc").set_index(["scheme", "seed"])
    assert runs["test_accuracy"].to_dict() == {
        ("constant", 0): 90.0,
        ("constant", 1): 70.0,
        ("full_batch", 1): 95.0,
        ("linear", 0): 60.0,
    }


def test_the_commit_is_that_of_the_copy_that_holds_the_study(study):
    def git(*arguments):
        command = ["git", "-C", study, "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    into = ["--into", study / "measured"]
    outside = subprocess.run([sys.executable, SCRIPT, study, *into], capture_output=True, text=True)
    assert outside.returncode == 1
    assert outside.stderr.count("\n") == 1 and "in no git repository" in outside.stderr
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "sources")
    subprocess.run([sys.executable, SCRIPT, study, *into], check=True, capture_output=True)
    commits = pd.read_csv(study / "measured" / "runs.csv", dtype=str)["commit"]
    assert set(commits) == {git("rev-parse", "--short=12", "HEAD")}


def test_summary_names_what_was_not_run(study):
    runs = runs_table(finished([study], RUNS), "abc")
    summary = kept_summary(runs).set_index(["dataset", "scheme", "kernel"])
    assert len(summary) == len(read_cells(PUBLISHED))
    constant = summary.loc[("mnist", "constant", "ld")]
    assert (constant["test_accuracy_mean"], constant["n_seeds"]) == (91.0, 2)
    assert constant["speedup_seconds"] == 50
    assert summary.loc[("mnist", "full_batch", "ld"), "missing_seeds"] == "0"
    not_run = summary.loc[("fashion_mnist", "linear", "hmc")]
    assert not_run["n_seeds"] == 0
    assert not_run[[f"{name}_mean" for name in METRICS]].isna().all()


def test_seconds_of_two_machines_make_no_speed_up(study):
    runs = runs_table(finished([study], RUNS), "abc")
    runs.loc[runs["scheme"] == "full_batch", "machine"] = "another"
    constant = kept_summary(runs).set_index(["dataset", "scheme", "kernel"]).loc[("mnist", "constant", "ld")]
    assert np.isnan(constant["speedup_seconds"])
    assert constant["speedup_gradients"] == 1


def test_traces_keep_scored_iterations_only(study):
    traces = traces_table(finished([study], RUNS))
    assert len(traces) == 3
    assert set(traces["iteration"]) == {1}


def tables(study):
    """What decisions rest on: variants and runs."""
    return variants_table(finished([study], TRIED), "abc"), runs_table(finished([study], RUNS), "abc")


def test_decisions_are_means_over_seeds(study):
    table = decisions_table(*tables(study)).set_index("variant")
    assert table.loc["standardised", "test_accuracy_mean"] == 92
    assert table.loc["standardised", "test_accuracy_std"] == pytest.approx(np.std([90, 91, 95], ddof=1))
    assert table.loc["standardised", "seeds"] == "0 1 2"
    assert table.loc["fan_in_prior", "n_seeds"] == 1


def test_decisions_are_compared_with_the_runs_of_constant(study):
    table = decisions_table(*tables(study)).set_index("variant")
    assert table.loc["default", ["test_accuracy_mean", "seeds"]].tolist() == [91, "0 1"]
    assert set(table.index) == {"default", "standardised", "fan_in_prior"}


def test_variants_say_how_they_were_made(study):
    variants, _ = tables(study)
    assert len(variants) == 4
    assert {"seed", "machine", "python", "commit"} <= set(variants)


def test_table_of_decisions_sets_published_first_and_no_spread_of_one_seed(study):
    template = PUBLISHED.parents[2] / "paper" / "templates" / "decisions.tex.j2"
    lines = as_latex(decisions_table(*tables(study)), read_cells(PUBLISHED), template).splitlines()
    rows = [line for line in lines if line.count("&") == 8 and line.endswith("\\\\")][1:]
    assert [row.split(" & ")[0] for row in rows] == [
        "Published",
        "Nothing changed",
        "Pixels of mean 0 and variance 1",
        "Prior variance 1/fan-in a layer",
    ]
    assert rows[0].split(" & ")[1:3] == ["$92.46$", "$-0.273$"]
    assert rows[2].split(" & ")[1] == "$92.00 \\pm 2.65$"
    assert rows[3].split(" & ")[1] == "$50.00$"


def test_what_is_kept_stays_unless_it_was_made_again(study, tmp_path):
    into, elsewhere = tmp_path / "measured", tmp_path / "elsewhere"
    assert keep(study, into, "0123456789").returncode == 0
    make_run(elsewhere, "constant", "ld", 1, test_accuracy=70.0)
    make_run(elsewhere, "linear", "ld", 0, test_accuracy=60.0)
    make_variant(elsewhere, "fan_in_prior", 1, 60.0)
    assert keep(elsewhere, into, "later").returncode == 0
    runs = pd.read_csv(into / "runs.csv", dtype={"commit": str}).set_index(["scheme", "seed"])
    assert runs[["test_accuracy", "commit"]].apply(tuple, axis=1).to_dict() == {
        ("constant", 0): (90.0, "0123456789"),
        ("constant", 1): (70.0, "later"),
        ("full_batch", 1): (95.0, "0123456789"),
        ("linear", 0): (60.0, "later"),
    }
    assert len(pd.read_csv(into / "traces.csv")) == 4
    decisions = pd.read_csv(into / "decisions.csv").set_index("variant")
    assert decisions["n_seeds"].to_dict() == {"default": 2, "fan_in_prior": 2, "standardised": 3}
    assert decisions.loc["fan_in_prior", "test_accuracy_mean"] == 55


def test_a_decision_over_more_seeds_stays(study, tmp_path):
    """Its runs may not be kept: then fewer new ones are not the better evidence."""
    into, elsewhere = tmp_path / "measured", tmp_path / "elsewhere"
    assert keep(study, into, "abc").returncode == 0
    (into / "variants.csv").unlink()
    for seed in (0, 1):
        make_variant(elsewhere, "standardised", seed, 10.0)
        make_variant(elsewhere, "fan_in_prior", seed, 10.0)
    assert keep(elsewhere, into, "abc").returncode == 0
    decisions = pd.read_csv(into / "decisions.csv").set_index("variant")
    assert decisions["n_seeds"].to_dict() == {"default": 2, "fan_in_prior": 2, "standardised": 3}
    assert decisions["test_accuracy_mean"].to_dict() == {
        "default": 91,
        "fan_in_prior": 10,
        "standardised": 92,
    }


def test_keeping_the_same_study_twice_changes_nothing(study, tmp_path):
    into = tmp_path / "measured"

    def kept():
        assert keep(study, into, "abc").returncode == 0
        return {file.name: file.read_bytes() for file in into.iterdir()}

    assert kept() == kept()


def test_variants_beside_runs_with_another_prior_are_refused(study, tmp_path):
    """Unless the prior is what they change."""
    make_variant(study, "particles_8", 0, 50.0, prior_scale=0.2)
    done = keep(study, tmp_path / "measured", "abc")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "particles_8" in done.stderr and "0.2" in done.stderr
    make_variant(study, "particles_8", 0, 50.0)
    make_variant(study, "prior_scale_0.2", 0, 50.0, prior_scale=0.2)
    assert keep(study, tmp_path / "measured", "abc").returncode == 0


@pytest.mark.parametrize("setting", ["particles", "n_train", "prior_scale"])
def test_runs_of_another_study_are_refused(study, tmp_path, setting):
    into, other = tmp_path / "measured", tmp_path / "other"
    assert keep(study, into, "abc").returncode == 0
    before = (into / "runs.csv").read_bytes()
    make_run(other, "linear", "ld", 0, **{setting: 77})
    done = keep(other, into, "abc")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"have {setting}" in done.stderr and "77" in done.stderr
    assert (into / "runs.csv").read_bytes() == before


def test_variants_without_a_run_are_refused(tmp_path):
    make_variant(tmp_path, "fan_in_prior", 0, 50.0)
    done = keep(tmp_path, tmp_path / "measured", "abc")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no run to compare" in done.stderr


def test_command_writes_tables_and_refuses_an_empty_study(study, tmp_path):
    into = tmp_path / "measured"
    command = [sys.executable, SCRIPT, study, "--into", into, "--commit", "abc"]
    subprocess.run(command, check=True, capture_output=True)
    assert {file.name for file in into.iterdir()} == {
        "runs.csv",
        "summary.csv",
        "traces.csv",
        "variants.csv",
        "decisions.csv",
        "curvature.csv",
        "verify.txt",
    }
    assert len(pd.read_csv(into / "runs.csv")) == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run([sys.executable, SCRIPT, empty], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no finished run" in done.stderr


def test_the_verdict_that_is_kept_is_that_on_the_study_that_is_kept():
    summary = MEASURED / "summary.csv"
    checks = verify(read_cells(summary), read_cells(PUBLISHED), runs_beside(summary))
    assert (MEASURED / "verify.txt").read_text() == report(checks) + "\n"
