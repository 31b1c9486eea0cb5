"""What is kept of a study: its tables, from made-up runs."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cells import read_cells
from curvature import COLUMNS
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
from measured_numbers import curvature_numbers, measured_numbers
from summary import METRICS, RUN_COLUMNS
from verify import report, verify

SCRIPT = PUBLISHED.parents[1] / "scripts" / "evidence.py"


def make_run(study, scheme, kernel, seed, **values):
    """Write what `smcda run` would have."""
    folder = study / "runs" / "mnist" / scheme / kernel / f"seed-{seed}"
    folder.mkdir(parents=True)
    metrics = dict.fromkeys(RUN_COLUMNS, 1.0)
    metrics |= {"dataset": "mnist", "scheme": scheme, "kernel": kernel, "seed": seed}
    metrics |= {"particles": 4, "iterations": 200} | values
    metrics |= {"gradients": "native", "batch_norm": False, "resumed": 2}
    metrics |= {"versions": {"smcda": "1", "jax": "2", "flax": "3"}}
    names = ("step_size", "leapfrog_steps", "batch_size", "initial_batch", "resampling", "weight_target")
    metrics |= {"settings": dict.fromkeys(names, 7) | {"step_size": 0.002}}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    columns = "iteration,batch_size,beta,ess,unique_ancestors,gradient_evaluations"
    rows = "0,5,1,2,2,10,,\n1,5,1,2,2,20,-0.5,80\n"
    (folder / "trace.csv").write_text(f"{columns},test_log_likelihood,test_accuracy\n{rows}")


def make_variant(study, name, seed, accuracy):
    file = study / "variants" / "mnist" / name / "ld" / f"seed-{seed}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {"dataset": "mnist", "variant": name, "kernel": "ld", "particles": 4, "iterations": 200}
    scores = {"test_log_likelihood": -0.3, "test_accuracy": accuracy}
    file.write_text(json.dumps(about | {"step_size": 0.002, "seed": seed} | scores))


def make_curvature(study, kernel, seed, *eigenvalues):
    file = study / "curvature" / "mnist" / kernel / f"seed-{seed}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"mnist,{kernel},{seed},4,{k},0.002,60000,{value}" for k, value in enumerate(eigenvalues)]
    file.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")


@pytest.fixture
def study(tmp_path):
    make_run(tmp_path, "constant", "ld", 0, test_accuracy=90.0, runtime_s=2.0)
    make_run(tmp_path, "constant", "ld", 1, test_accuracy=92.0, runtime_s=2.0)
    make_run(tmp_path, "full_batch", "ld", 1, test_accuracy=95.0, runtime_s=100.0)
    for seed, accuracy in enumerate((90.0, 91.0, 95.0)):
        make_variant(tmp_path, "standardised", seed, accuracy)
    make_variant(tmp_path, "flat_prior", 0, 50.0)
    make_curvature(tmp_path, "ld", 0, 1.0, 17.0)
    return tmp_path


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
    assert table.loc["flat_prior", "n_seeds"] == 1


def test_decisions_are_compared_with_the_runs_of_constant(study):
    table = decisions_table(*tables(study)).set_index("variant")
    assert table.loc["default", ["test_accuracy_mean", "seeds"]].tolist() == [91, "0 1"]
    assert set(table.index) == {"default", "standardised", "flat_prior"}


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
        "Prior scale 0.1 for every weight",
    ]
    assert rows[0].split(" & ")[1:3] == ["$92.46$", "$-0.273$"]
    assert rows[2].split(" & ")[1] == "$92.00 \\pm 2.65$"
    assert rows[3].split(" & ")[1] == "$50.00$"


def keep(study, into, commit):
    command = [sys.executable, SCRIPT, study, "--into", into, "--commit", commit]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_what_is_kept_stays_unless_it_was_made_again(study, tmp_path):
    into, elsewhere = tmp_path / "measured", tmp_path / "elsewhere"
    assert keep(study, into, "0123456789").returncode == 0
    make_run(elsewhere, "constant", "ld", 1, test_accuracy=70.0)
    make_run(elsewhere, "linear", "ld", 0, test_accuracy=60.0)
    make_variant(elsewhere, "flat_prior", 1, 60.0)
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
    assert decisions["n_seeds"].to_dict() == {"default": 2, "flat_prior": 2, "standardised": 3}
    assert decisions.loc["flat_prior", "test_accuracy_mean"] == 55


def test_a_decision_over_more_seeds_stays(study, tmp_path):
    """Its runs may not be kept: then fewer new ones are not the better evidence."""
    into, elsewhere = tmp_path / "measured", tmp_path / "elsewhere"
    assert keep(study, into, "abc").returncode == 0
    (into / "variants.csv").unlink()
    for seed in (0, 1):
        make_variant(elsewhere, "standardised", seed, 10.0)
        make_variant(elsewhere, "flat_prior", seed, 10.0)
    assert keep(elsewhere, into, "abc").returncode == 0
    decisions = pd.read_csv(into / "decisions.csv").set_index("variant")
    assert decisions["n_seeds"].to_dict() == {"default": 2, "flat_prior": 2, "standardised": 3}
    assert decisions["test_accuracy_mean"].to_dict() == {"default": 91, "flat_prior": 10, "standardised": 92}


def test_keeping_the_same_study_twice_changes_nothing(study, tmp_path):
    into = tmp_path / "measured"

    def kept():
        assert keep(study, into, "abc").returncode == 0
        return {file.name: file.read_bytes() for file in into.iterdir()}

    assert kept() == kept()


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
    make_variant(tmp_path, "flat_prior", 0, 50.0)
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
    checks = verify(read_cells(MEASURED / "summary.csv"), read_cells(PUBLISHED))
    assert (MEASURED / "verify.txt").read_text() == report(checks) + "\n"


def test_curvature_is_set_beside_what_leapfrog_can_bear(study, tmp_path):
    """4 / (0.002^2 60,000) is 16.7."""
    into = tmp_path / "measured"
    make_curvature(study, "ld", 1, 2.0, 3.0)
    assert keep(study, into, "abc").returncode == 0
    make_curvature(study, "ld", 0, 1.5, 17.5)
    assert keep(study, into, "abc").returncode == 0
    table = pd.read_csv(into / "curvature.csv")
    assert table["eigenvalue"].tolist() == [1.5, 17.5, 2.0, 3.0]
    runs = pd.DataFrame({"step_size": [0.002], "n_train": [60_000]})
    numbers = curvature_numbers(table, [("mnist", "ld"), ("mnist", "hmc")], runs)
    assert numbers == {
        "curvature/limit": "16.7",
        "curvature/limit_3h": "1.9",
        "curvature/images": "2\\,000",
        "curvature/mnist/ld": "1.5 to 17.5",
        "curvature/mnist/ld/beyond": "in 1 of the 4 looks",
        "curvature/mnist/hmc": "n/a",
        "curvature/mnist/hmc/beyond": "in none of the looks, because none can be compared",
    }


@pytest.mark.parametrize("with_decisions", [True, False])
def test_every_measured_number_of_the_text_is_defined(study, tmp_path, with_decisions):
    into = tmp_path / "measured"
    command = [sys.executable, SCRIPT, study, "--into", into, "--commit", "abc"]
    subprocess.run(command, check=True, capture_output=True)
    beside = (into / f"{name}.csv" if with_decisions else None for name in ("decisions", "curvature"))
    files = (into / "runs.csv", into / "summary.csv", *beside)
    numbers = measured_numbers(*files, read_cells(PUBLISHED))
    text = (PUBLISHED.parents[2] / "paper" / "main.tex").read_text()
    used = {key for key in re.findall(r"\\val\{([^}#]+)\}", text) if key.startswith("measured/")}
    assert len(used) > 15
    assert used - set(numbers) == set()
    assert numbers["measured/verify/test_accuracy"] == "in none of the 2 cells that were run"
    assert numbers["measured/verify/full_batch / constant, seconds"] == "it holds (in 1 of 1)"
    # 92.0 is within a point of 92.46, -0.3 not within 0.02 of -0.2726.
    within = (
        "in 1 of the 2 scores" if with_decisions else "in none of the scores, because none can be compared"
    )
    assert numbers["measured/decision/standardised/within"] == within
    # Seed 0 has 90.0, seed 1 has 92.0.
    assert numbers["measured/decision/seed_0/within"] == "in none of the 2 scores"
    found = numbers["measured/decision/mnist/standardised/ld/test_accuracy"]
    assert found == (r"\ensuremath{92.00}" if with_decisions else "n/a")
