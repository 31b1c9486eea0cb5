"""The real DAG at a tiny scale: both datasets, every scheme and kernel, and what a change rebuilds.

Takes minutes, so it runs only when asked for: ``pytest -m end_to_end``.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from cost_model import gradient_evaluations
from helpers.project_copy import copy_project
from study import resolve

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[2]

SNAKEMAKE = Path(sys.executable).with_name("snakemake")
FIGURES = {"schedules", "beta_traces", "cost", "learning_curves", "degeneracy", "reliability"}
TABLES = {"study", "versus_published", "speedups"}


def snakemake(folder, *options):
    command = [SNAKEMAKE, *options, "--cores", "2", "--config", "scale=tiny"]
    return subprocess.run(command, cwd=folder, env=own_package(folder), capture_output=True, text=True)


def own_package(folder):
    """Environment in which the folder's copy of the package is the one that is imported."""
    return os.environ | {"PYTHONPATH": str(folder)}


def planned(folder, *more):
    """How many jobs of each rule a dry run plans."""
    command = [SNAKEMAKE, "-n", "--quiet", "reason", "--cores", "2", "--config", "scale=tiny", *more]
    plan = subprocess.run(command, cwd=folder, env=own_package(folder), capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr
    jobs = re.findall(r"^([a-z_]+) +(\d+)$", plan.stdout, re.MULTILINE)
    return {rule: int(count) for rule, count in jobs if rule not in ("total", "all")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A project of its own, built whole."""
    folder = copy_project(tmp_path_factory.mktemp("end-to-end"))
    result = snakemake(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def out(built):
    return built / "results" / "tiny"


def test_every_run_is_in_the_table_with_values_in_range(out):
    runs = pd.read_csv(out / "runs.csv")
    assert len(runs) == 2 * 6 * 2 * 2
    assert len(runs.drop_duplicates(["dataset", "scheme", "kernel", "seed"])) == len(runs)
    assert set(runs["n_parameters"]) == {61_706, 96_658}
    assert (runs["test_log_likelihood"] < 0).all()
    assert runs["test_accuracy"].between(0, 100).all()
    assert runs["ece"].between(0, 1).all()
    assert runs["brier"].between(0, 2).all()
    assert (runs["runtime_s"] > 0).all()


def test_no_checkpoint_is_left_and_hidden_only_one_lock_file_per_run(out):
    assert not (out / "checkpoints").exists()
    # What the summary has read is remembered there, so that it opens only what changed.
    locks = {path.with_name(".lock") for path in out.rglob("metrics.json")}
    assert set(out.rglob(".*")) == locks | {out / ".runs_read.json"}


def test_traces_and_metrics_agree(out):
    for metrics_file in out.glob("runs/*/*/*/*/metrics.json"):
        metrics = json.loads(metrics_file.read_text())
        trace = pd.read_csv(metrics_file.with_name("trace.csv"))
        assert len(trace) == metrics["iterations"] == 10
        assert trace["gradient_evaluations"].iloc[-1] == metrics["gradient_evaluations"]
        assert trace["test_accuracy"].iloc[-1] == metrics["test_accuracy"]
        assert trace["batch_size"].max() <= metrics["n_train"] == 100


def test_gradient_evaluations_are_the_counted_ones(out):
    summary = pd.read_csv(out / "summary.csv").set_index(["dataset", "scheme", "kernel"])
    cost = summary["gradient_evaluations_mean"]
    for dataset in ("mnist", "fashion_mnist"):
        # 3 particles, 10 iterations, 100 images: one sweep to begin with and S an iteration.
        assert cost[dataset, "full_batch", "ld"] == 3 * (100 + 10 * 100)
        assert cost[dataset, "full_batch", "hmc"] == 3 * (100 + 10 * 300)
        assert cost[dataset, "constant", "hmc"] == 3 * 10 * 4 * 20
        assert summary.loc[(dataset, "constant", "ld"), "speedup_gradients"] == pytest.approx(1100 / 400)


def test_the_cost_model_foretells_what_runs_count(out):
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"scale": "tiny"}
    settings = resolve(config, ROOT / "workflow" / "schemas" / "config.schema.yaml").settings
    for run in pd.read_csv(out / "runs.csv").itertuples():
        foretold = gradient_evaluations(settings, run.scheme, run.kernel)
        if run.scheme == "smooth_data_annealing":
            assert foretold >= run.gradient_evaluations
        else:
            assert foretold == run.gradient_evaluations


def test_the_summary_averages_over_seeds(out):
    runs, summary = pd.read_csv(out / "runs.csv"), pd.read_csv(out / "summary.csv")
    assert len(summary) == 24
    assert (summary["n_seeds"] == 2).all()
    assert summary["missing_seeds"].isna().all()
    row = summary.iloc[7]
    mask = (runs[["dataset", "scheme", "kernel"]] == row[["dataset", "scheme", "kernel"]].to_list()).all(
        axis=1
    )
    a, b = runs.loc[mask, "test_accuracy"]
    assert row["test_accuracy_mean"] == pytest.approx((a + b) / 2)
    assert row["test_accuracy_std"] == pytest.approx(abs(a - b) / math.sqrt(2))


def test_every_figure_and_table_is_there_and_whole(out):
    for name in FIGURES:
        assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in TABLES:
        assert r"\toprule" in (out / "tables" / f"{name}.tex").read_text()


def test_cells_of_the_study_table_equal_the_summary(out):
    summary = pd.read_csv(out / "summary.csv").set_index(["dataset", "scheme", "kernel"])
    tex = (out / "tables" / "study.tex").read_text()
    for (dataset, scheme, kernel), row in summary.iterrows():
        del dataset, scheme, kernel
        assert f"{row['test_accuracy_mean']:.2f}" in tex
        assert f"{abs(row['test_log_likelihood_mean']):.3f}" in tex


@pytest.mark.skipif(shutil.which("latexmk") is None, reason="TeX is not on this machine; .ci/run installs it")
def test_the_paper_is_built_and_the_same_bytes_again(built, out):
    first = (out / "paper.pdf").read_bytes()
    assert first.startswith(b"%PDF")
    assert snakemake(built, "paper", "--forcerun", "paper").returncode == 0
    assert (out / "paper.pdf").read_bytes() == first


def test_nothing_is_left_to_do(built):
    assert planned(built) == {}


def test_a_key_that_nothing_reads_rebuilds_nothing(built):
    config = built / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("particles: 100", "particles: 50"))
    try:
        assert planned(built) == {}
    finally:
        config.write_text(text)


def test_touching_sources_rebuilds_nothing(built):
    for source in (
        *built.glob("smcda/**/*.py"),
        *built.glob("workflow/scripts/*.py"),
        *built.glob("workflow/*.py"),
    ):
        source.touch()
    assert planned(built) == {}


def changed(file, text="\n# changed\n"):
    file.write_text(file.read_text() + text)


def test_a_changed_figure_script_redraws_that_figure_only(built):
    script = built / "workflow" / "scripts" / "cost.py"
    text = script.read_text()
    changed(script)
    try:
        plan = planned(built)
        # Where there is TeX, the paper shows this figure of the kept study too.
        assert {rule: count for rule, count in plan.items() if rule not in ("paper", "measured_cost")} == {
            "cost": 1
        }
    finally:
        script.write_text(text)


def test_a_changed_sampler_reruns_every_run_and_what_follows(built):
    source = built / "smcda" / "smc" / "kernels.py"
    text = source.read_text()
    changed(source)
    try:
        plan = planned(built)
        assert plan["run"] == 48
        assert plan["summary"] == 1
        assert set(plan) >= FIGURES
        assert "data" not in plan
    finally:
        source.write_text(text)


def test_a_changed_setting_reruns_only_the_runs_that_read_it(built):
    assert planned(built, "delta_entropy=2")["run"] == 8
    assert planned(built, "leapfrog_steps=4")["run"] == 24
    assert planned(built, "step_size=0.02")["run"] == 48


def test_verify_judges_the_summary_it_is_given_and_keeps_the_report(built, out):
    command = [SNAKEMAKE, "verify", "--cores", "1", "--config", "scale=tiny"]
    command.append("verify=results/tiny/summary.csv")
    result = subprocess.run(command, cwd=built, env=own_package(built), capture_output=True, text=True)
    # Four seconds of sampling on a hundred images are no reproduction.
    assert result.returncode == 1
    assert "0 not run" in result.stdout
    report = pd.read_csv(out / "verify.csv")
    assert len(report) == 54
    assert (report["outcome"] == "FAIL").sum() > 20
    assert "missing:" not in result.stdout + result.stderr


def test_a_failed_run_leaves_the_others_alone_and_is_named(built):
    """Runs last: it spoils the build."""
    rule = built / "workflow" / "rules" / "runs.smk"
    text = rule.read_text()
    rule.write_text(
        text.replace(
            '"smcda run --data', '"test {wildcards.scheme}-{wildcards.seed} != linear-1 && smcda run --data'
        )
    )
    runs = built / "results" / "tiny" / "runs"
    other = runs / "fashion_mnist" / "constant" / "ld" / "seed-0" / "metrics.json"
    for file in (other, *runs.glob("*/linear/*/seed-1/metrics.json"), runs.parent / "summary.csv"):
        file.unlink()
    result = snakemake(built)
    try:
        assert result.returncode != 0
        assert "missing: mnist linear hmc seed 1" in result.stderr + result.stdout
        assert other.exists()
        summary = pd.read_csv(built / "results" / "tiny" / "summary.csv")
        linear = summary["scheme"] == "linear"
        assert (summary.loc[linear, "missing_seeds"] == 1).all()
        assert (summary.loc[linear, "n_seeds"] == 1).all()
        assert summary.loc[~linear, "missing_seeds"].isna().all()
        assert (summary.loc[~linear, "n_seeds"] == 2).all()
        plan = planned(built)
        assert plan["run"] == 4
        assert plan["summary"] == 1
    finally:
        rule.write_text(text)
