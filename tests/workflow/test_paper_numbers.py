"""The numbers of the text: every key that it uses is defined, and means what it says."""

import re
from types import SimpleNamespace

import collect_numbers
import pytest
from helpers.study import ROOT

SETTINGS = {"scale": "my_scale", "particles": 5, "iterations": 40, "step_size": 0.01, "leapfrog_steps": None}
SETTINGS |= {"batch_size": 50, "initial_batch": None, "resampling": "multinomial", "weight_target": "current"}
SETTINGS |= {"refine_from": 0.9, "delta_entropy": 1.0, "beta_restart": 0.1, "prior_scale": 0.1}
SETTINGS |= {"batch_norm": False, "device": "cpu", "seeds": [0, 1], "schemes": ["constant"]}
SETTINGS |= {"kernels": ["ld", "hmc"], "datasets": ["mnist"]}


@pytest.fixture
def collect(tmp_path):
    def collect(entries=(), **changes):
        rows = "mnist,0,2000,56\nmnist,1,2000,56\nwine_1,0,1600,40\n"
        (tmp_path / "runs.csv").write_text(f"dataset,seed,n_train,n_test\n{rows}")
        resources = ROOT / "workflow" / "resources"
        reference = ROOT / "paper" / "reference"
        files = {"runs": tmp_path / "runs.csv", "reference": reference / "runs.csv"}
        files |= {name: reference / f"{name}.csv" for name in ("traces", "ablations", "small_data")}
        files |= {"published": resources / "published_table.csv"}
        files |= {"published_settings": resources / "published_settings.yaml"}
        output = SimpleNamespace(tex=tmp_path / "n.tex")
        params = SimpleNamespace(settings=SETTINGS | changes, entries=dict(entries))
        collect_numbers.main(SimpleNamespace(input=SimpleNamespace(**files), output=output, params=params))
        return dict(re.findall(r"^\\smcdadef\{(.*?)\}\{(.*)\}$", output.tex.read_text(), re.MULTILINE))

    return collect


def test_every_number_of_the_text_is_defined(collect):
    text = (ROOT / "paper" / "main.tex").read_text()
    used = set(re.findall(r"\\val\{([^}#]+)\}", text)) - {"key"}
    assert len(used) > 40
    assert used - collect().keys() == set()


def test_numbers_are_those_of_the_build_and_of_the_published_table(collect):
    expected = {
        "settings/scale": "my scale",
        "settings/n_train": r"2\,000",
        "settings/n_runs": "3",
        "settings/of_datasets": r"; wine 1: 1\,600 training and 40 test examples",
        "settings/rate_ld": "0.1",  # 0.01^2 2,000 / 2
        "settings/prior": "standard deviation 0.1",
        "reference/network/lenet5/parameters": r"61\,706",
        "published/settings/rate_hmc": "1.08",
        "published/mnist/linear/ld/test_accuracy": r"\ensuremath{93.14}",
        "published/clock/hmc_over_ld": "1.19 to 1.24",
        "published/clock/work/ld": "60",
        "published/clock/work/hmc": "90",
        "published/clock/linear_full_at": "45 to 56",
        "published/clock/linear_full_at/formula": "119",
        "reference/limit": "16.7",
        "reference/limit_3h": "1.9",
        "reference/settings/particles": "4",
    }
    found = collect()
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("prior_scale", "words"),
    [
        (None, "standard deviation 0.1"),
        (2.0, "deviation 2"),
        ("fan_in", "variance one over fan-in"),
        ("2.5*fan_in", "deviation 2.5 over the root of fan-in"),
        ("hierarchical", "learnt for each layer"),
    ],
)
def test_the_text_names_the_prior_of_the_build(collect, prior_scale, words):
    assert words in collect(prior_scale=prior_scale)["settings/prior"]


def test_what_is_not_set_has_the_default_of_the_package(collect):
    found = collect(step_size=None, particles=None, resampling=None)
    assert [found[f"settings/{name}"] for name in ("step_size", "particles", "resampling")] == [
        "0.002", "100", "multinomial",
    ]  # fmt: skip
    assert found["settings/rate_ld"] == "0.004"  # 0.002^2 2,000 / 2


def test_the_text_names_what_single_datasets_have_of_their_own(collect):
    entries = {"mnist": {"step_size": 0.5}, "wine_1": {"data": "f.npz", "model": "m.py:f", "particles": 9}}
    sizes = r"1\,600 training and 40 test examples"
    expected = f"; MNIST: step size 0.5; wine 1: {sizes}, particles 9"
    assert collect(entries)["settings/of_datasets"] == expected
