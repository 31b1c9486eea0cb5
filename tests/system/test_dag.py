"""The real DAG at a tiny scale: both datasets, every scheme and kernel, and what a change rebuilds.

Takes minutes, so it runs only when asked for: ``pytest -m system``.
"""

import json
import math
import re
import shutil
import subprocess
import sys
from functools import partial

import pandas as pd
import pytest
import yaml
from helpers import project_copy
from helpers.project_copy import ROOT, SPACED, copy_project, edited, run_snakemake
from lib.labels import label
from lib.resources import sampling_cost
from lib.study import resolve

pytestmark = pytest.mark.system

FIGURES = {"schedules", "beta_traces", "cost", "learning_curves", "degeneracy", "reliability"}
TABLES = {"study", "speedups"}
CELL = ["dataset", "scheme", "kernel"]
HAS_TEX = shutil.which("latexmk") is not None
planned = partial(project_copy.planned, config=SPACED)


def planned_with(folder, *config):
    return project_copy.planned(folder, config=[*SPACED, *config])


@pytest.fixture
def out(built):
    return built / "my results" / "tiny"


def test_every_run_is_in_the_table_with_values_in_range(out):
    runs = pd.read_csv(out / "runs.csv")
    assert len(runs) == 2 * 6 * 2 * 2
    assert len(runs.drop_duplicates([*CELL, "seed"])) == len(runs)
    assert runs["ablation"].isna().all()
    assert set(runs["n_parameters"]) == {61_706, 96_658}
    assert (runs["test_log_likelihood"] < 0).all()
    assert runs["test_accuracy"].between(0, 100).all()
    assert runs["ece"].between(0, 1).all()
    assert runs["brier"].between(0, 2).all()
    assert (runs["runtime_s"] > 0).all()
    for name in ("prior_scale", "step_size", "jax_version", "machine", "python"):
        assert runs[name].nunique() == 1 and runs[name].notna().all(), name


def test_no_checkpoint_is_left_and_hidden_only_one_lock_file_per_run(out):
    assert not (out / "checkpoints").exists()
    assert set(out.rglob(".*")) == {path.with_name(".lock") for path in out.rglob("metrics.json")}


def test_traces_and_metrics_agree(out):
    files = list(out.glob("runs/*/*/*/*/metrics.json"))
    assert len(files) == 48
    for metrics_file in files:
        metrics = json.loads(metrics_file.read_text())
        trace = pd.read_csv(metrics_file.with_name("trace.csv"))
        assert len(trace) == metrics["iterations"] == 10
        assert trace["gradient_evaluations"].iloc[-1] == metrics["gradient_evaluations"]
        assert trace["test_accuracy"].iloc[-1] == metrics["test_accuracy"]
        assert trace["batch_size"].max() <= metrics["n_train"] == 100


def test_gradient_evaluations_are_the_counted_ones(out):
    summary = pd.read_csv(out / "summary.csv").set_index(CELL)
    cost = summary["gradient_evaluations_mean"]
    for dataset in ("mnist", "fashion_mnist"):
        # 3 particles, 10 iterations, 100 images: once to begin with and S times per iteration.
        assert cost[dataset, "full_batch", "ld"] == 3 * (100 + 10 * 100)
        assert cost[dataset, "full_batch", "hmc"] == 3 * (100 + 10 * 300)
        assert cost[dataset, "constant", "hmc"] == 3 * 10 * 4 * 20
        assert summary.loc[(dataset, "constant", "ld"), "speedup_gradients"] == pytest.approx(1100 / 400)


def test_the_cost_model_predicts_what_runs_count(out):
    study = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()) | {"scale": "tiny"})
    for run in pd.read_csv(out / "runs.csv").itertuples():
        predicted = sampling_cost(study, run.dataset, run.scheme, run.kernel)
        if run.scheme == "smooth_data_annealing":
            assert predicted >= run.gradient_evaluations
        else:
            assert predicted == run.gradient_evaluations


def test_the_summary_averages_over_seeds(out):
    runs, summary = pd.read_csv(out / "runs.csv"), pd.read_csv(out / "summary.csv")
    assert len(summary) == 24
    assert (summary["n_seeds"] == 2).all()
    assert summary["missing_seeds"].isna().all()
    row = summary.iloc[7]
    a, b = runs.loc[(runs[CELL] == row[CELL].to_list()).all(axis=1), "test_accuracy"]
    assert row["test_accuracy_mean"] == pytest.approx((a + b) / 2)
    assert row["test_accuracy_std"] == pytest.approx(abs(a - b) / math.sqrt(2))


def test_every_figure_is_there_and_whole(out):
    for name in FIGURES:
        assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_every_cell_of_the_study_table_is_the_summary_s_in_its_place(out):
    """A row per scheme and dataset; columns are two kernels for each of three metrics."""
    summary = pd.read_csv(out / "summary.csv").set_index(CELL)
    tex = (out / "tables" / "study.tex").read_text()
    body = tex.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    scheme, cells = "", {}
    for line in re.findall(r"^(.* & .*) \\\\$", body, re.MULTILINE):
        first, dataset, *numbers = line.split(" & ")
        scheme = first.strip() or scheme
        cells[scheme, dataset] = [float(re.search(r"-?[\d.]+", text)[0]) for text in numbers]
    assert len(cells) == 12
    for (dataset, scheme), rows in summary.groupby(["dataset", "scheme"]):
        expected = [
            rows.loc[(dataset, scheme, kernel), f"{metric}_mean"]
            for metric in ("test_log_likelihood", "test_accuracy", "runtime_s")
            for kernel in ("ld", "hmc")
        ]
        found = cells[label(scheme).latex_title, label(dataset).latex]
        assert found == pytest.approx(expected, abs=0.006), (dataset, scheme)
        assert found[:2] == pytest.approx(expected[:2], abs=0.0006), (dataset, scheme)


@pytest.mark.skipif(not HAS_TEX, reason="TeX is not on this machine; .ci/run installs it")
def test_the_paper_is_built_and_the_same_bytes_again(built, out):
    first = (out / "paper.pdf").read_bytes()
    assert first.startswith(b"%PDF")
    assert run_snakemake(built, "paper", "--forcerun", "paper", config=SPACED).returncode == 0
    assert (out / "paper.pdf").read_bytes() == first


def test_nothing_is_left_to_do_here_or_where_the_build_was_copied_to(built, tmp_path):
    assert planned(built) == {}
    subprocess.run(["cp", "-a", built, tmp_path / "copy"], check=True)
    assert planned(tmp_path / "copy") == {}


def test_touching_sources_rebuilds_nothing(built):
    sources = [file for folder in ("smcda", "workflow") for file in (built / folder).rglob("*.*")]
    sources = [file for file in sources if file.suffix in (".py", ".smk", ".cc", ".h", ".rst")]
    assert len(sources) > 50
    for source in (*sources, built / "Snakefile", built / "config.yaml"):
        source.touch()
    assert planned(built) == {}


def test_what_no_result_depends_on_rebuilds_nothing(built):
    with edited(built / "smcda" / "runs" / "progress.py"):
        assert planned(built) == {}
    with edited(built / "config.yaml", "particles: 100\n", "particles: 50\n"):
        assert planned(built) == {}
    assert planned_with(built, "checkpoint_every=5", "compilation_cache=elsewhere") == {}


def test_a_changed_figure_script_redraws_that_figure_only(built):
    with edited(built / "workflow" / "scripts" / "plot_degeneracy.py"):
        plan = planned(built)
        assert plan.pop("paper", None) == (1 if HAS_TEX else None)
        assert plan == {"figure": 1, "pages": 1}
    with edited(built / "workflow" / "lib" / "style.py"):
        assert planned(built)["figure"] == len(FIGURES)


def test_a_changed_sampler_reruns_every_run_and_what_follows(built):
    with edited(built / "smcda" / "smc" / "kernels.py"):
        plan = planned(built)
    assert (plan["run"], plan["summary"], plan["figure"]) == (48, 1, len(FIGURES))
    assert "data" not in plan


def test_replaced_images_rerun_what_is_sampled_from_them(built):
    images = built / "smcda" / "data" / "bundled" / "mnist.npz"
    before = images.read_bytes()
    images.write_bytes(before + b"\0")
    try:
        plan = planned(built)
    finally:
        images.write_bytes(before)
    assert (plan["data"], plan["run"]) == (1, 24)


def test_a_changed_setting_reruns_only_the_runs_that_read_it(built):
    assert planned_with(built, "delta_entropy=2")["run"] == 8
    assert planned_with(built, "refine_from=0.5")["run"] == 24
    assert planned_with(built, "leapfrog_steps=4")["run"] == 24
    assert planned_with(built, "step_size=0.02")["run"] == 48


def test_compare_judges_the_summary_it_is_given_and_keeps_the_report(built, out):
    result = run_snakemake(built, "compare", config=[*SPACED, "compare=my results/tiny/summary.csv"])
    # Four seconds of sampling on a hundred images are no reproduction.
    assert result.returncode == 1
    assert "0 not run" in result.stdout
    assert (pd.read_csv(out / "compare.csv")["outcome"] == "FAIL").sum() > 20


@pytest.fixture(scope="module")
def with_failures(tmp_path_factory):
    """A small study of which one run fails, and what Snakemake answered."""
    folder = copy_project(tmp_path_factory.mktemp("failing"))
    fails = '"test {wildcards.study}-{wildcards.scheme}-{wildcards.seed} != runs-linear-1 && smcda run --data'
    config = ["datasets=[mnist]", "schemes=[constant,linear]", "kernels=[ld]"]
    with edited(folder / "workflow" / "rules" / "run.smk", '"smcda run --data', fails):
        return folder, config, run_snakemake(folder, "summary", "ablations", "curvatures", config=config)


def test_a_failed_run_leaves_the_others_alone_and_is_all_that_is_left_to_do(with_failures):
    folder, config, result = with_failures
    assert result.returncode != 0
    finished = folder.glob("results/tiny/runs/mnist/*/ld/*/metrics.json")
    assert {file.parent.relative_to(file.parents[3]).as_posix() for file in finished} == {
        "constant/ld/seed-0", "constant/ld/seed-1", "linear/ld/seed-0",
    }  # fmt: skip
    plan = project_copy.planned(folder, "summary", "ablations", config=config)
    assert plan == {"run": 1, "summary": 1}


def test_what_is_there_can_be_summarised_after_a_failure(with_failures):
    folder, _, _ = with_failures
    script = folder / "workflow" / "scripts" / "summarise.py"
    command = [sys.executable, script, folder / "results" / "tiny", "--out", folder / "so far"]
    subprocess.run(command, check=True, capture_output=True)
    summary = pd.read_csv(folder / "so far" / "summary.csv").set_index("scheme")
    assert summary["n_seeds"].to_dict() == {"constant": 2, "linear": 1}
    assert summary.loc["linear", "missing_seeds"] == 1
    assert not (folder / "results" / "tiny" / "summary.csv").exists()


def test_ablations_are_rows_with_their_own_settings(with_failures):
    folder, _, _ = with_failures
    runs = pd.read_csv(folder / "results" / "tiny" / "ablations.csv")
    assert runs[["ablation", "scheme", "seed", "particles"]].to_numpy().tolist() == [
        ["particles_2", "constant", 0, 2],
        ["particles_2", "constant", 1, 2],
    ]


def test_curvature_is_measured_along_the_study_s_own_run(with_failures):
    folder, _, _ = with_failures
    table = pd.read_csv(folder / "results" / "tiny" / "curvature" / "mnist" / "ld" / "seed-0.csv")
    assert table["iteration"].tolist() == list(range(11))
    assert (table[["particles", "step_size", "n_train"]] == [3, 0.03, 100]).all(axis=None)
    assert (table["eigenvalue"] > 0).all()
