"""The small-data study's grid: which runs there are, their commands, and what the command line selects."""

import subprocess
import sys

import pandas as pd
import pytest
from helpers.study import CONFIG, REFERENCE, ROOT
from lib.config import ConfigError
from lib.small_grid import resolve_small

from smcda.cli import make_parser

ARCHIVE = ROOT / "tools" / "archive_small_data.py"


def study_of(**changes):
    """The project's study, with some keys of it changed."""
    return resolve_small(CONFIG | {"small_data": CONFIG["small_data"] | changes})


def option(command, name):
    words = command.replace("'", "").split()
    return words[words.index(f"--{name}") + 1]


def test_the_study_is_what_it_is_meant_to_be():
    study = study_of()
    cells = list(study.cells())
    assert len({cell.path for cell in cells}) == len(cells)
    ours = [cell for cell in cells if cell.method == "smc_adaptive"]
    assert {cell.n_train for cell in ours} == {250, 500, 1000, 2000}
    assert {cell.particles for cell in ours} == {16, 32, 64}
    assert {cell.prior_scale for cell in ours} >= {"fan_in", "2*fan_in", "4*fan_in", "hierarchical"}
    assert {cell.dataset for cell in ours} == {"mnist", "fashion_mnist"}
    assert {cell.seed for cell in cells} == {0, 1, 2}
    assert {cell.method for cell in cells} >= {"deep_ensemble", "sghmc", "smc_linear_hmc"}


def test_every_command_is_one_that_the_package_takes():
    study, parser = study_of(seeds=[0]), make_parser()
    for path in study.by_path:
        command = study.command(path).replace("'", "")
        files = ["--data", "d.npz", "--ood", "o.npz", "--out", "out", *study.device_options().split()]
        parser.parse_args([*command.split(), *files])


def test_a_grid_that_grows_leaves_the_commands_and_places_of_its_runs_as_they_are():
    small, large = (
        study_of(n_train=[500], seeds=[1], only=["sghmc", "smc_adaptive"], particles=[16]),
        study_of(),
    )
    assert small.by_path.keys() < large.by_path.keys()
    for path in small.by_path:
        assert small.command(path) == large.command(path)
        assert small.images(path) == large.images(path)


def test_what_is_selected_is_all_that_is_run():
    # Numbers arrive as text from the command line.
    study = study_of(
        n_train=["250"], seeds=["0"], particles=["16"], prior_scales=["2.0*fan_in", "hierarchical"]
    )
    cells = list(study.cells())
    assert {cell.prior_scale for cell in cells} == {"2*fan_in", "hierarchical", ""}
    assert {(cell.n_train, cell.seed, cell.particles) for cell in cells} == {(250, 0, 16)}
    assert {cell.method for cell in cells} == {"smc_adaptive", "deep_ensemble", "sghmc", "sghmc_long"}


def test_the_published_pace_is_kept_at_every_size():
    study = study_of(only=["smc_linear_hmc"])
    for path, cell in study.by_path.items():
        h = float(option(study.command(path), "step-size"))
        assert h**2 * cell.n_train == pytest.approx(0.002**2 * 60_000, rel=1e-3)


def test_foreign_images_are_those_of_the_other_dataset():
    study = study_of(datasets=["mnist"])
    path = next(iter(study.by_path))
    assert study.images(path).endswith("mnist-250.npz") and "fashion" not in study.images(path)
    assert study.images(path, foreign=True).endswith("fashion_mnist-250.npz")


SMC = {"kind": "smc"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_train": [2001]}, "small_data/n_train/0 is 2001, but must be less than or equal to 2000"),
        ({"only": ["sgmhc"]}, "only names 'sgmhc', but must name some of smc_adaptive"),
        ({"seed": [1]}, "key 'seed' in small_data is unknown (value [1]): choose from datasets"),
        ({"particles": [7]}, "small_data: no method has any of the particles and prior_scales"),
        ({"prior_scales": ["3*fan"]}, "prior_scale is '3*fan', but must be a finite number"),
        ({"methods": {"a": {"kind": "svi"}}}, "small_data/methods/a/kind is 'svi', but must be one of smc"),
        ({"methods": {"a": SMC | {"epochs": 1}}}, "key 'epochs' in small_data/methods/a is unknown"),
        ({"methods": {"a": {"kind": "sghmc", "momentum": 3}}}, "methods/a: momentum is 3, but must be"),
        ({"methods": {"a": {"kind": "sghmc", "particles": [5]}}}, "methods/a, n_train 250: particles is 5"),
        ({"methods": {"a": SMC | {"scheme": "linear", "batch_size": 300}}}, "n_train 250: batch_size"),
        ({"methods": {"a": SMC | {"step_size": 0.1}}}, "step_size is 0.1, but adjusted moves adapt theirs"),
    ],
)
def test_a_wrong_grid_is_one_line(changes, message):
    with pytest.raises(ConfigError) as caught:
        study_of(**changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_another_study_does_not_take_its_folder():
    with pytest.raises(ConfigError, match="folder of the small-data study"):
        resolve_small(CONFIG | {"study": "small_data"})


def write_run(study, path, **values):
    folder = study / "runs" / path
    folder.mkdir(parents=True)
    dataset, n_train, _, _, particles, seed = path.split("/")
    row = {"dataset": dataset, "n_train": n_train[2:], "particles": particles[2:], "seed": seed[5:]}
    row |= {"test_accuracy": 90.5, "test_log_likelihood": -0.3, "ece": 0.1, "brier": 0.1, "runtime_s": 1.5}
    row |= {"ood_auroc_entropy": 0.9, "ood_auroc_mutual_information": 0.9, "gradient_evaluations": 100}
    row |= {"machine": "a machine", "python": "3", "commit": "0123", "prior_scale": None, "diagnostics": {}}
    (folder / "metrics.json").write_text(
        pd.Series(row | {"particles": int(particles[2:])} | values).to_json()
    )
    (folder / "trace.csv").write_text("iteration\n0\n")


def archive(study, into):
    return subprocess.run([sys.executable, ARCHIVE, study, "--into", into], capture_output=True, text=True)


@pytest.fixture
def into(tmp_path):
    (tmp_path / "reference").mkdir()
    header = (REFERENCE / "small_data.csv").read_text().splitlines()[0]
    (tmp_path / "reference" / "small_data.csv").write_text(f"{header}\n")
    return tmp_path / "reference"


def test_kept_rows_are_replaced_by_key_and_never_lost(tmp_path, into):
    one, other = (f"mnist/n-{n}/deep_ensemble/none/j-16/seed-0" for n in (1000, 250))
    write_run(tmp_path / "first", one)
    write_run(tmp_path / "first", other)
    assert archive(tmp_path / "first", into).returncode == 0
    write_run(tmp_path / "second", one, test_accuracy=70.0, commit="later")
    write_run(tmp_path / "second", one.replace("mnist", "fashion_mnist"))
    assert archive(tmp_path / "second", into).returncode == 0
    table = pd.read_csv(into / "small_data.csv", dtype=str, keep_default_na=False)
    assert table[["dataset", "n_train", "method", "test_accuracy", "commit"]].to_numpy().tolist() == [
        ["fashion_mnist", "1000", "deep_ensemble", "90.5", "0123"],
        ["mnist", "250", "deep_ensemble", "90.5", "0123"],
        ["mnist", "1000", "deep_ensemble", "70", "later"],
    ]
    before = (into / "small_data.csv").read_bytes()
    assert archive(tmp_path / "second", into).returncode == 0
    assert (into / "small_data.csv").read_bytes() == before


def test_a_run_without_its_scores_is_refused_in_one_line(tmp_path, into):
    before = (into / "small_data.csv").read_bytes()
    write_run(tmp_path / "study", "mnist/n-250/sghmc/fan_in/j-16/seed-0", brier=None)
    done = archive(tmp_path / "study", into)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "brier" in done.stderr
    assert archive(tmp_path / "none", into).returncode == 1
    assert (into / "small_data.csv").read_bytes() == before
