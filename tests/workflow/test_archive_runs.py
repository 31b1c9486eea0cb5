"""What the archive keeps of a study: every run once, with the machine and sources that made it."""

import shutil

import pandas as pd
import pytest
from helpers.fake_study import REFERENCE, archive, empty_reference, make_curvature, make_run


@pytest.fixture
def into(tmp_path):
    return empty_reference(tmp_path / "reference")


def read(into, name="runs"):
    return pd.read_csv(into / f"{name}.csv", dtype=str, keep_default_na=False)


def test_a_row_says_what_the_run_itself_recorded(tmp_path, into):
    make_run(
        tmp_path, machine="a GPU node", python="3.13.1", commit="00000012345", test_accuracy=91.123456789
    )
    assert archive(tmp_path, into).returncode == 0
    row = read(into).iloc[0]
    assert row[["machine", "python", "commit"]].tolist() == ["a GPU node", "3.13.1", "00000012345"]
    assert row[["jax_version", "step_size", "prior_scale", "ablation"]].tolist() == ["2", "0.002", "0.1", ""]
    assert row["test_accuracy"] == "91.123457"
    trace = read(into, "traces")
    assert trace[["iteration", "test_accuracy", "particles"]].values.tolist() == [["1", "80", "4"]]


@pytest.mark.parametrize("missing", ["machine", "python", "commit", "versions", "test_accuracy"])
def test_a_run_that_does_not_record_it_is_refused_and_nothing_is_written(tmp_path, into, missing):
    make_run(tmp_path, seed=0)
    make_run(tmp_path, seed=1, **{missing: None})
    done = archive(tmp_path, into)
    assert done.returncode == 1
    name = "jax_version" if missing == "versions" else missing
    assert done.stderr.count("\n") == 1 and name in done.stderr and "seed-1" in done.stderr
    assert read(into).empty and read(into, "traces").empty


def test_the_fan_in_prior_is_named_and_ablations_are_rows_of_their_own(tmp_path, into):
    make_run(tmp_path)
    make_run(tmp_path, ablation="fan_in_prior", prior_scale=None)
    assert archive(tmp_path, into).returncode == 0
    found = set(read(into)[["ablation", "prior_scale"]].itertuples(index=False, name=None))
    assert found == {("", "0.1"), ("fan_in_prior", "fan_in")}


def test_start_and_weighting_are_those_of_the_run(tmp_path, into):
    settings = {"step_size": 0.002, "leapfrog_steps": 1, "batch_size": 500, "initial_batch": 500}
    settings |= {"resampling": "multinomial", "weight_target": "current", "weighting": "plain"}
    more = {
        "start": "lecun",
        "start_seed": 0,
        "prior_scale": 1.0,
        "particle_accuracy": 88.5,
        "settings": settings,
    }
    make_run(tmp_path)
    make_run(tmp_path, ablation="another", **more)
    assert archive(tmp_path, into).returncode == 0
    columns = ["start", "prior_scale", "start_seed", "weighting", "particle_accuracy"]
    assert read(into)[columns].values.tolist() == [
        ["prior", "0.1", "", "target", "1"],
        ["lecun", "1", "0", "plain", "88.5"],
    ]
    assert read(into, "traces")["start"].tolist() == ["prior", "lecun"]


def test_the_same_study_from_another_start_is_a_row_of_its_own(tmp_path, into):
    make_run(tmp_path / "one")
    make_run(tmp_path / "other", start="lecun")
    for name in ("one", "other"):
        assert archive(tmp_path / name, into).returncode == 0
    assert read(into)["start"].tolist() == ["lecun", "prior"]
    assert len(read(into, "traces")) == 2


def test_a_run_made_again_replaces_its_row_and_all_others_stay(tmp_path, into):
    for seed, accuracy in ((0, 90.0), (1, 92.0)):
        make_run(tmp_path / "first", seed=seed, test_accuracy=accuracy)
    make_curvature(tmp_path / "first", 1.5, 17.5)
    assert archive(tmp_path / "first", into).returncode == 0
    make_run(tmp_path / "second", seed=1, test_accuracy=70.0, commit="later")
    make_run(
        tmp_path / "second", seed=1, particles=8, test_accuracy=60.0, commit="later", ablation="particles_8"
    )
    assert archive(tmp_path / "second", into).returncode == 0
    rows = read(into)[["seed", "particles", "test_accuracy", "commit"]].values.tolist()
    first, later = "0123456789ab", "later"
    assert rows == [["0", "4", "90", first], ["1", "4", "70", later], ["1", "8", "60", later]]
    assert len(read(into, "traces")) == 3
    assert read(into, "curvature")["eigenvalue"].tolist() == ["1.5", "17.5"]


def test_archiving_the_same_study_twice_changes_nothing(tmp_path, into):
    make_run(tmp_path, seed=10)
    make_run(tmp_path, seed=9)
    make_curvature(tmp_path, 1.0)

    def archived():
        assert archive(tmp_path, into).returncode == 0
        return {file.name: file.read_bytes() for file in into.iterdir()}

    assert archived() == archived()
    assert read(into)["seed"].tolist() == ["9", "10"]


def test_adding_to_the_committed_tables_changes_no_other_line(tmp_path):
    into = tmp_path / "reference"
    shutil.copytree(REFERENCE, into)
    make_run(tmp_path / "study", seed=987654)
    assert archive(tmp_path / "study", into).returncode == 0
    for name in ("runs", "traces", "curvature"):
        before, after = ((folder / f"{name}.csv").read_text().splitlines() for folder in (REFERENCE, into))
        added = [line for line in after if ",987654," in line]
        assert len(added) == (name != "curvature")
        assert [line for line in after if line not in added] == before


@pytest.mark.parametrize(("setting", "ablation"), [("n_train", ""), ("n_train", "one"), ("iterations", "")])
def test_runs_of_another_scale_are_refused(tmp_path, into, setting, ablation):
    """They would replace runs at full data that have the same name."""
    make_run(tmp_path, ablation=ablation, **{setting: 77})
    done = archive(tmp_path, into)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"{setting} 77" in done.stderr
    assert read(into).empty


def test_an_ablation_may_change_other_settings(tmp_path, into):
    make_run(tmp_path, ablation="ld_equal_gradients", iterations=400)
    assert archive(tmp_path, into).returncode == 0
    assert read(into)["iterations"].tolist() == ["400"]


def test_curvature_without_its_run_is_refused(tmp_path, into):
    make_curvature(tmp_path, 1.0, without=["prior_scale", "machine"])
    done = archive(tmp_path, into)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "prior_scale, machine" in done.stderr


def test_an_empty_study_is_refused(tmp_path, into):
    done = archive(tmp_path / "none", into)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "no finished run" in done.stderr
