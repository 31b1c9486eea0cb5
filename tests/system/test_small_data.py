"""The small-data study through its DAG, in a minute: runs, table, figures, and a grid that grows."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from helpers.project_copy import ROOT, copy_project, planned, run_snakemake

pytestmark = pytest.mark.system

METHODS = {
    "smc_adaptive": {"particles": [4], "max_moves": 2, "final_moves": 4, "leapfrog_steps": 4},
    "deep_ensemble": {"particles": [4], "epochs": 2, "search_particles": 2},
}
GRID = {"datasets": ["mnist"], "n_train": [20], "test_images": 30, "seeds": [0], "methods": METHODS}
GRID |= {"only": list(METHODS), "prior_scales": ["fan_in", "2*fan_in"]}


def config(**changes):
    return ["output_dir=my results", f"small_data={json.dumps(GRID | changes)}"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = copy_project(tmp_path_factory.mktemp("small"))
    result = run_snakemake(folder, "small_data", config=config())
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def out(built):
    return built / "my results" / "small_data"


def test_the_table_has_every_run_with_its_scores(out):
    table = pd.read_csv(out / "small_data.csv", keep_default_na=False, na_values=[""])
    assert table["method"].tolist() == ["smc_adaptive", "smc_adaptive", "deep_ensemble"]
    assert table["prior_scale"].tolist()[:2] == ["fan_in", "2*fan_in"]
    assert (table[["n_train", "n_test", "particles"]] == [20, 30, 4]).all(axis=None)
    assert table["ood_auroc"].between(0, 1).all() and table["brier"].between(0, 2).all()
    assert table["acceptance"].notna().tolist() == [True, True, False]
    assert table["validation_log_likelihood"].notna().tolist() == [False, False, True]


def test_figures_and_tables_are_there(out):
    assert len(list(out.glob("figures/*.png"))) == len(list(out.glob("figures/*.pdf"))) == 3
    assert len(list(out.glob("tables/*.tex"))) == 4


def test_a_grid_that_grows_makes_what_is_new_and_nothing_again(built):
    assert planned(built, "small_data", config=config()) == {}
    plan = planned(built, "small_data", config=config(seeds=[0, 1], n_train=[20, 30]))
    # Four cells of three runs, one of which is there.
    assert (plan["small_data_smc"], plan["small_data_baseline"]) == (6, 3)
    assert plan["small_data_images"] == 2


def test_a_changed_method_reruns_its_own_runs(built):
    methods = METHODS | {"deep_ensemble": METHODS["deep_ensemble"] | {"epochs": 3}}
    plan = planned(built, "small_data", config=config(methods=methods))
    assert plan["small_data_baseline"] == 1 and "small_data_smc" not in plan


def test_what_is_finished_is_kept_and_reaches_the_paper(built, out):
    assert "kept_small_data_table" not in planned(built, "reference")
    for file in out.glob("runs/**/metrics.json"):
        # A copy of the project is no checkout.
        file.write_text(json.dumps(json.loads(file.read_text()) | {"commit": "0123456789ab"}))
    tool = ROOT / "tools" / "archive_small_data.py"
    done = subprocess.run([sys.executable, tool, out, "--into", built / "paper" / "reference"])
    assert done.returncode == 0
    plan = planned(built, "reference")
    assert (plan["kept_small_data_table"], plan["kept_small_data_figure"]) == (4, 3)
