"""Datasets of the user's own in the config: what their runs are given, and every way to get one wrong."""

import json
import shlex
import zipfile

import numpy as np
import pytest
from helpers import study
from lib import resources
from lib.config import ConfigError
from lib.study import protect

from smcda.cli import make_parser
from smcda.config import parse_options
from smcda.data import mnist as sources
from smcda.errors import BadInput

CELL = ("wine", "constant", "ld")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A folder with a user's data and model."""
    monkeypatch.chdir(tmp_path)
    arrays = {"train_x": (70, 3), "train_y": (70,), "test_x": (30, 3), "test_y": (30,)}
    np.savez("wine.npz", **{name: np.zeros(shape) for name, shape in arrays.items()})
    np.savez("no test.npz", train_x=np.zeros((70, 3)), train_y=np.zeros(70))
    np.savez("empty.npz", **{name: np.zeros((0, *shape[1:])) for name, shape in arrays.items()})
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "my models.py").write_text("def mlp(example_x, width=8): ...\n")
    return tmp_path


def wine(**more):
    return {"wine": {"data": "wine.npz", "model": "my models.py:mlp", "likelihood": "gaussian"} | more}


def study_of(datasets, **more):
    return study.study_of({"scale": "tiny"}, datasets=datasets, **more)


def test_a_list_and_a_mapping_select_and_the_published_two_are_the_default():
    assert study_of(["kmnist", "mnist"], source="full").settings["datasets"] == ["kmnist", "mnist"]
    assert study_of({"mnist": None} | wine()).settings["datasets"] == ["mnist", "wine"]
    assert study.study_of(scale="paper").settings["datasets"] == ["mnist", "fashion_mnist"]


def test_a_list_selects_from_the_scale_s_mapping_and_top_level_keys_add_to_it():
    scales = {"tiny": study.CONFIG["scales"]["tiny"] | {"datasets": {"mnist": {}} | wine(particles=7)}}
    selected = study_of(["wine"], scales=scales)
    assert selected.settings["datasets"] == ["wine"]
    assert selected.settings_of("wine")["particles"] == 7
    assert study_of({"wine": {"batch_size": 9}}, scales=scales).dataset("wine").overrides == {
        "particles": 7,
        "batch_size": 9,
    }


def test_a_run_of_an_own_dataset_is_given_its_model_and_its_overrides():
    options = {"width": 32, "depths": [2, 3], "name": "two words", "skip": True, "rate": None}
    given = study_of({"mnist": {}} | wine(model_options=options, particles=50, step_size=0.01))
    words = shlex.split(given.dataset("wine").model_arguments())
    assert words[:1] == ["my models.py:mlp"]
    parsed = make_parser().parse_args(["run", "--data", "d", "--out", "o", "--model", *words])
    assert parse_options(tuple(parsed.model_options)) == options
    assert parsed.likelihood == "gaussian"
    config = given.run_config(*CELL)
    assert (config.model, config.sampler.particles, config.sampler.step_size) == (parsed.model, 50, 0.01)
    assert parse_options(config.model_options) == options
    assert "--particles 50" in given.run_options(*CELL)
    assert given.run_config("mnist", *CELL[1:]).sampler.particles == 3
    assert given.dataset("mnist").model_arguments() == "lenet5"


def test_settings_of_the_built_in_networks_reach_an_own_model_only_by_its_own_entry():
    chosen = {"prior_scale": 0.1, "start": "lecun", "batch_norm": True}
    plain = study_of(wine(), **chosen)
    assert not {"prior_scale", "start", "batch_norm"} & plain.settings_read_by(*CELL).keys()
    assert plain.run_config(*CELL).prior_scale is None
    own = study_of(wine(prior_scale=1.0, start="lecun"), **chosen)
    assert own.settings_read_by(*CELL)["prior_scale"] == 1.0
    assert own.settings_read_by(*CELL)["start"] == "lecun"
    # A built-in network on the user's own images is given them all.
    images = study_of({"digits": {"data": "wine.npz", "model": "lenet5"}}, prior_scale=0.3)
    assert "--prior-scale 0.3" in images.run_options("digits", *CELL[1:])


def test_files_of_a_model_are_inputs_and_modules_are_not():
    assert study_of(wine()).dataset("wine").model_files == ["my models.py"]
    assert study_of(wine(model="package.module:mlp")).dataset("wine").model_files == []
    assert study_of(["mnist"]).dataset("mnist").model_files == []


def test_examples_are_counted_in_the_file_and_decide_the_cost():
    given = study_of({"mnist": {}} | wine(particles=2))
    assert given.n_examples("wine") == (70, 30)
    assert given.n_examples("mnist") == (100, 60)
    # K = 10, LD: once to begin with and one gradient per move and example.
    assert resources.sampling_cost(given, "wine", "full_batch", "ld") == 2 * (70 + 10 * 70)
    slow = study_of(wine(seconds_per_evaluation=1.0))
    assert resources.seconds(slow, *CELL) > 100 * resources.seconds(study_of(wine()), *CELL)


def test_the_size_of_other_types_of_header_is_read_too(project):
    with (project / "two.npy").open("wb") as file:
        np.lib.format.write_array(file, np.zeros((5, 2)), version=(2, 0))
    with zipfile.ZipFile("two.npz", "w") as archive:
        for name in ("train_x", "train_y", "test_x", "test_y"):
            archive.write("two.npy", f"{name}.npy")
    assert study_of(wine(data="two.npz", batch_size=5)).n_examples("wine") == (5, 5)


def test_an_ablation_changes_every_dataset_and_may_say_more_of_one():
    ablations = {
        "wide": {"particles": 9},
        "own": {"datasets": wine(particles=4)},
        "one": {"datasets": ["wine"]},
    }
    given = study_of({"mnist": {}} | wine(particles=50, prior_scale=1.0), ablations=ablations)
    wide, own, one = given.ablations()
    assert [wide.settings_of(name)["particles"] for name in ("mnist", "wine")] == [9, 9]
    assert own.settings["datasets"] == one.settings["datasets"] == ["wine"]
    assert [each.settings_of("wine")["particles"] for each in (own, one)] == [4, 50]
    assert wide.settings_read_by(*CELL)["prior_scale"] == 1.0


def test_numbers_inside_a_mapping_on_the_command_line_arrive_as_text():
    given = study_of(wine(particles="50", step_size="1e-2", model_options={"width": "32"}, adjusted="false"))
    assert study_of({"mnist": "", "fashion_mnist": "null"}).entries == {"mnist": {}, "fashion_mnist": {}}
    config = given.run_config(*CELL)
    assert (config.sampler.particles, config.sampler.step_size) == (50, 0.01)
    assert parse_options(config.model_options) == {"width": 32}


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        (
            ["minst"],
            "'minst' is not built in (mnist, fashion_mnist, kmnist) and has no data: correct the name",
        ),
        (["mnist", "mnist"], "datasets is ['mnist', 'mnist'], but must not name anything twice"),
        ([], "datasets is [], but must name at least one dataset"),
        ({}, "datasets is {}, but must name at least one dataset"),
        ([3], "but must be a list of names, or a mapping"),
        ("mnist", "datasets is 'mnist', but"),
        ({"a/b": {}}, "datasets/a/b/[key] is 'a/b', but must match pattern"),
        ({"x" * 25: {}}, "but must match pattern"),
        (["kmnist"], "kmnist is not bundled: set source: full"),
        ({"mnist": {"data": "wine.npz"}}, "datasets/mnist: data is 'wine.npz', but mnist is built in"),
        (wine(data="beer.npz"), "datasets/wine: data is 'beer.npz', which is not a file"),
        (
            wine(data="text.npz"),
            "datasets/wine: data is 'text.npz', which is no .npz (File is not a zip file)",
        ),
        (wine(data="no test.npz"), "data is 'no test.npz', which lacks test_x, test_y"),
        (
            wine(data="empty.npz"),
            "data is 'empty.npz', whose train_x, train_y, test_x, test_y has no examples",
        ),
        (wine(model="theirs.py:mlp"), "model is 'theirs.py:mlp', but theirs.py is not a file"),
        (wine(model="lenet6"), "datasets/wine: model 'lenet6' is unknown: choose one of lenet5, fashion_cnn"),
        ({"wine": {"data": "wine.npz"}}, "datasets/wine: model is not set: give one as file.py:name"),
        (
            wine(likelihood="gausian"),
            "datasets/wine: likelihood 'gausian' is unknown: choose one of categorical",
        ),
        (
            wine(partickles=3),
            "key 'partickles' in datasets/wine is unknown (value 3): choose from data, model",
        ),
        (wine(particles=1), "datasets/wine: particles is 1, but must be a whole number of at least 2"),
        (wine(particles="many"), "datasets/wine: particles is 'many', but must be a whole number"),
        (wine(batch_size=71), "datasets/wine: batch_size (kappa) is 71, more than the 70 training examples"),
        (wine(batch_norm=True), "datasets/wine: batch_norm is an option of fashion_cnn: leave it out"),
        (wine(model_options={"a b": 1}), "model_options 'a b=1' is not of the form key=value"),
        ({"mnist": {"likelihood": "gaussian"}}, "datasets/mnist: likelihood is for a model of your own"),
        ({"mnist": {"batch_norm": True}}, "datasets/mnist: batch_norm is not an option of model lenet5"),
    ],
)
def test_a_wrong_entry_is_refused_in_one_line(datasets, message):
    with pytest.raises(ConfigError) as refusal:
        study_of(datasets)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_finished_study_protects_what_its_own_datasets_were(project):
    def record(datasets):
        given = study_of(datasets)
        file = project / "study.json"
        file.write_text(json.dumps({given.path: given.record("a hash")}))
        return file

    file = record({"mnist": {}} | wine(particles=50))
    protect([study_of({"mnist": {}} | wine(particles=50) | {"fashion_mnist": {}})], file)
    # What its entry overrides may change for the others only.
    with pytest.raises(ConfigError, match=r"\(particles is 50 there, 60 is requested\)"):
        protect([study_of({"mnist": {}} | wine(particles=60))], file)
    with pytest.raises(ConfigError, match="model is my models.py:mlp there, package:net is requested"):
        protect([study_of({"mnist": {}} | wine(particles=50, model="package:net"))], file)
    with pytest.raises(ConfigError, match=r"datasets is \['mnist', 'wine'\] there, \['mnist'\]"):
        protect([study_of(["mnist"])], file)
    # Its data are not cut by the scale.
    protect([study_of(wine(particles=50), train_images=60)], record(wine(particles=50)))


def test_only_datasets_with_the_published_settings_are_compared_with_the_published():
    published = {"n_train": 60_000, "n_test": 10_000, "step_size": 0.002, "iterations": 200}
    datasets = {"mnist": {}, "fashion_mnist": {"step_size": 0.001}, "kmnist": {}} | wine(batch_size=20)
    paper = study.study_of(scale="paper", datasets=datasets)
    assert paper.datasets_as_published(published) == ["mnist"]
    assert study.study_of(scale="paper", particles=7).datasets_as_published(published) == [
        "mnist",
        "fashion_mnist",
    ]
    assert study_of(["mnist"]).datasets_as_published(published) == []


def test_kmnist_is_where_tfds_registered_it_and_is_not_bundled(tmp_path):
    registered = sources._registered("kmnist")
    assert {sources.DATASETS["kmnist"] + file for file in sources.FILES.values()} == set(registered)
    with pytest.raises(BadInput, match="kmnist is not bundled"):
        sources.prepare("kmnist", tmp_path / "out.npz", bundled=True)
    paper = study.study_of(scale="paper", datasets=["kmnist"])
    assert paper.n_examples("kmnist") == (60_000, 10_000)
    assert paper.dataset("kmnist").model_arguments() == "lenet5"


def test_the_adaptive_scheme_asks_for_what_its_own_defaults_cost():
    given = study_of(wine(), schemes=["adaptive"], scales={"tiny": {"iterations": None, "particles": None}})
    few = study_of(wine(particles=10), schemes=["adaptive"], scales={"tiny": {}})
    cell = ("wine", "adaptive", "hmc")
    assert given.run_config(*cell).sampler.particles == 1000
    assert resources.seconds(given, *cell) == pytest.approx(100 * resources.seconds(few, *cell))
