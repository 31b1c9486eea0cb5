"""A finished study is not changed by a later command, unless that says so."""

import shutil

import pandas as pd
import pytest
from helpers.project_copy import copy_project, edited, planned, run_snakemake

pytestmark = pytest.mark.system

SMALL = ["datasets=[mnist]", "schemes=[constant]", "kernels=[ld]"]
# The default profile has --keep-going; this has not.
STOP_AT_ONCE = ["--workflow-profile", "none", "--nolock"]
STOP_AT_ONCE += ["--rerun-triggers", "mtime", "params", "input", "software-env", "--"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = copy_project(tmp_path_factory.mktemp("finished"))
    result = run_snakemake(folder, "summary", "ablations", config=SMALL)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def copied(built, tmp_path):
    """A copy of the built study that a test may change."""
    return shutil.copytree(built, tmp_path / "copy", symlinks=True)


def snapshot(folder):
    return {file: (file.read_bytes(), file.stat().st_mtime) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("target", "change", "message"),
    [
        ("summary", "step_size=0.01", "step_size is 0.03 there, 0.01 is requested"),
        ("summary", "seeds=[1]", "seeds is [0, 1] there, [1] is requested"),
        ("figures", "train_images=50", "train_images is 100 there, 50 is requested"),
        ("ablations", "step_size=0.01", "ablations/particles_2: step_size is 0.03 there, 0.01 is requested"),
    ],
)
def test_other_settings_are_refused_and_nothing_changes(built, target, change, message):
    before = snapshot(built / "results")
    assert planned(built, target, config=[*SMALL, change])
    refused = run_snakemake(built, target, config=[*SMALL, change])
    assert refused.returncode != 0
    assert f"results/tiny holds a finished study of other settings ({message}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert snapshot(built / "results") == before


def test_what_only_reads_is_built_whatever_the_settings(built):
    done = run_snakemake(built, "reference", config=["step_size=0.01"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_study_is_built_beside(built):
    before = snapshot(built / "results" / "tiny")
    done = run_snakemake(built, "summary", config=[*SMALL, "step_size=0.01", "seeds=[3]", "study=other"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert pd.read_csv(built / "results" / "other" / "runs.csv")["step_size"].tolist() == [0.01]
    assert snapshot(built / "results" / "tiny") == before


@pytest.mark.parametrize("options", [["--keep-going"], STOP_AT_ONCE])
def test_a_larger_grid_of_which_a_run_fails_leaves_the_tables_of_the_finished_study(copied, options):
    tables = [copied / "results" / "tiny" / name for name in ("summary.csv", "runs.csv", "study.json")]
    before = [table.read_bytes() for table in tables]
    fails = '"test {wildcards.seed} != 7 && smcda run --data'
    larger = [*SMALL, "seeds=[0,1,7,8]"]
    with edited(copied / "workflow" / "rules" / "run.smk", '"smcda run --data', fails):
        assert run_snakemake(copied, *options, "summary", config=larger).returncode != 0
    assert [table.read_bytes() for table in tables] == before
    done = run_snakemake(copied, "summary", config=larger)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "will be made again" not in done.stderr
    assert pd.read_csv(tables[1])["seed"].tolist() == [0, 1, 7, 8]


def test_a_study_is_redone_in_place_when_the_config_says_so(copied):
    done = run_snakemake(copied, "summary", config=[*SMALL, "step_size=0.01", "replace=true"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 finished runs of results/tiny will be made again (" in done.stderr
    assert set(pd.read_csv(copied / "results" / "tiny" / "runs.csv")["step_size"]) == {0.01}
    assert "step_size is 0.01 there" in run_snakemake(copied, "summary", config=SMALL).stderr


def test_a_changed_sampler_says_what_it_is_going_to_redo(copied):
    with edited(copied / "smcda" / "smc" / "kernels.py"):
        done = run_snakemake(copied, "summary", config=SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    line = "2 of 2 finished runs of results/tiny will be made again, because the sampler's code changed"
    assert done.stderr.index(line) < done.stderr.index("Sampling runs:")
