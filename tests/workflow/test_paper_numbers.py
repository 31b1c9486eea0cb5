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
    def collect(**changes):
        (tmp_path / "runs.csv").write_text("seed,n_train,n_test\n0,2000,56\n1,2000,56\n")
        resources = ROOT / "workflow" / "resources"
        files = {"runs": tmp_path / "runs.csv", "reference": ROOT / "paper" / "reference" / "runs.csv"}
        files |= {"published": resources / "published_table.csv"}
        files |= {"published_settings": resources / "published_settings.yaml"}
        output, params = SimpleNamespace(tex=tmp_path / "n.tex"), SimpleNamespace(settings=SETTINGS | changes)
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
        "settings/n_runs": "2",
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


@pytest.mark.parametrize("prior_scale", [None, "fan_in"])
def test_the_text_names_the_prior_of_the_build(collect, prior_scale):
    assert "fan-in" in collect(prior_scale=prior_scale)["settings/prior"]
