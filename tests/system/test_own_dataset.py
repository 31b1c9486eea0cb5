"""A third dataset with its own model, given only in a config file: built, shown everywhere, rebuilt alone."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import plot_cost
import pytest
import yaml
from helpers.project_copy import copy_project, edited, planned, run_snakemake

pytestmark = pytest.mark.system

HAS_TEX = shutil.which("latexmk") is not None
CONFIG_FILE = ["--configfile", "mine.yaml"]
CONFIG = {
    "datasets": {
        "mnist": {},
        "melting_points": {
            "data": "my data/points.npz",
            "model": "my models.py:mlp",
            "likelihood": "gaussian",
            "model_options": {"width": 6},
            "particles": 5,
        },
    },
    "schemes": ["full_batch", "constant"],
    "kernels": ["ld"],
    "seeds": [0],
}
MODEL = """
from flax import linen as nn


class MLP(nn.Module):
    width: int = 32

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(self.width)(x)))


def mlp(example_x, **options):
    assert example_x.shape == (1, 3)
    return MLP(**options)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project whose own files are a config, a model and data, built whole."""
    folder = copy_project(tmp_path_factory.mktemp("own"))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(110, 3)).astype(np.float32)
    y = (x @ [1.0, -0.5, 0.2] + np.sin(x[:, 0]) + 0.3 * rng.normal(size=110)).astype(np.float32)
    (folder / "my data").mkdir()
    np.savez(folder / "my data" / "points.npz", train_x=x[:80], train_y=y[:80], test_x=x[80:], test_y=y[80:])
    (folder / "my models.py").write_text(MODEL)
    (folder / "mine.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    built = run_snakemake(folder, *CONFIG_FILE)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture
def out(project):
    return project / "results" / "tiny"


def plan(project):
    return planned(project, *CONFIG_FILE)


def test_it_is_in_the_summary_with_its_own_scores(out):
    runs = pd.read_csv(out / "runs.csv").set_index(["dataset", "scheme"])
    own = runs.loc["melting_points"]
    assert own.index.tolist() == ["full_batch", "constant"]
    assert set(own["network"]) == {"my models.py:mlp"}
    # A layer of 3 x 6 and one of 6 x 1, with biases, and the logarithm of the noise.
    assert set(own["n_parameters"]) == {3 * 6 + 6 + 6 + 1 + 1}
    assert own[["particles", "n_train", "n_test"]].to_numpy().tolist() == [[5, 80, 30]] * 2
    assert set(runs.loc["mnist", "particles"]) == {3}
    # J (N + K N), as of any model.
    assert own.loc["full_batch", "gradient_evaluations"] == 5 * (80 + 10 * 80)
    summary = pd.read_csv(out / "summary.csv").set_index(["dataset", "scheme"])
    for name in ("test_rmse", "test_log_likelihood", "test_coverage_90", "runtime_s"):
        assert summary.loc["melting_points", f"{name}_mean"].notna().all()
    assert (summary.loc["melting_points", "test_rmse_mean"] > 0.1).all()
    assert summary.loc["melting_points", "test_accuracy_mean"].isna().all()
    assert summary.loc["mnist", "test_accuracy_mean"].notna().all()


def test_it_is_in_the_table_and_the_figures(project, out):
    tex = (out / "tables" / "study.tex").read_text()
    rows = [line.split(" & ") for line in tex.splitlines() if "melting points" in line]
    summary = pd.read_csv(out / "summary.csv").set_index(["dataset", "scheme"])
    assert r"\multicolumn{1}{c}{Test RMSE}" in tex
    # Scheme, dataset, log-likelihood, accuracy (which it has not), RMSE, seconds.
    for cells, scheme in zip(rows, CONFIG["schemes"], strict=True):
        rmse = summary.loc[("melting_points", scheme), "test_rmse_mean"]
        assert cells[3] == "--"
        assert float(re.search(r"[\d.]+", cells[4])[0]) == pytest.approx(rmse, abs=0.0006)
    titles = [panel.get_title() for panel in plot_cost.draw(pd.read_csv(out / "summary.csv")).axes]
    assert titles == ["MNIST", "", "melting points", ""]
    for name in ("schedules", "cost", "learning_curves", "degeneracy", "reliability"):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not (out / "data" / "melting_points.npz").exists()


def test_it_is_on_the_first_page_of_the_report_and_in_its_tables(out):
    pages = {name: (out / "report" / f"{name}.html").read_text() for name in ("headlines", "study", "runs")}
    assert "melting points, best test RMSE" in pages["headlines"]
    assert "Test RMSE" in pages["study"] and "melting points" in pages["study"].lower()
    assert "my models.py:mlp" in pages["runs"]


@pytest.mark.skipif(not HAS_TEX, reason="TeX is not on this machine; .ci/run installs it")
def test_the_paper_names_it(out):
    assert (out / "paper.pdf").read_bytes().startswith(b"%PDF")
    assert (
        "melting points: 80 training and 30 test examples, particles 5" in (out / "numbers.tex").read_text()
    )


def test_a_second_snakemake_does_nothing(project):
    assert plan(project) == {}


def test_a_changed_model_reruns_its_own_runs_only(project):
    with edited(project / "my models.py", "nn.tanh", "nn.relu"):
        changed = plan(project)
    assert (changed["run"], changed["summary"]) == (2, 1)
    assert "data" not in changed
    (project / "my models.py").touch()
    assert plan(project) == {}


def test_changed_data_rerun_what_is_sampled_from_them(project):
    file = project / "my data" / "points.npz"
    before = file.read_bytes()
    with np.load(file) as arrays:
        np.savez(file, **{name: arrays[name][:25] for name in arrays})
    try:
        assert plan(project)["run"] == 2
    finally:
        file.write_bytes(before)


def test_a_finished_study_is_protected_from_other_settings_of_its_dataset(project):
    with edited(project / "mine.yaml", "particles: 5", "particles: 6"):
        refused = run_snakemake(project, *CONFIG_FILE)
    assert refused.returncode != 0
    assert "particles is 5 there, 6 is requested" in refused.stdout + refused.stderr


def test_the_curvature_of_its_model_is_measured_too(project, out):
    target = out.relative_to(project) / "curvature" / "melting_points" / "ld" / "seed-0.csv"
    made = run_snakemake(project, str(target), *CONFIG_FILE)
    assert made.returncode == 0, made.stdout + made.stderr
    assert (pd.read_csv(project / target)["n_train"] == 80).all()


def test_what_is_there_can_be_summarised_by_hand(project):
    script = project / "workflow" / "scripts" / "summarise.py"
    command = [sys.executable, script, project / "results" / "tiny"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "melting_points" in shown and "test_rmse_mean" in shown
