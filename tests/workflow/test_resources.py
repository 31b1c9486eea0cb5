"""The cost model: the same count that runs report, and requests that follow it."""

import importlib.util
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "workflow" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


cost_model, study = load("cost_model"), load("study")


def settings(scale, **changes):
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"scale": scale} | changes
    return study.resolve(config, ROOT / "workflow" / "schemas" / "config.schema.yaml").settings


@pytest.mark.parametrize(
    ("scheme", "kernel", "images"),
    [
        # K = 10, N = 100, C = kappa = 20; LD makes one sweep a move, HMC three.
        ("full_batch", "ld", 100 + 10 * 100),
        ("full_batch", "hmc", 100 + 10 * 300),
        ("constant", "ld", 10 * 2 * 20),
        ("constant", "hmc", 10 * 4 * 20),
        # Nine fresh batches, then everything at once.
        ("constant_to_refine", "ld", 9 * 2 * 20 + 2 * 100),
        # 20, 40, 60, 80, 100 and five more times 100; each image is new once.
        ("linear", "ld", 20 + 40 + 60 + 80 + 6 * 100 + 100),
        ("smooth_data_annealing", "ld", 20 + 40 + 60 + 80 + 6 * 100 + 100),
    ],
)
def test_gradient_evaluations_are_counted_by_hand(scheme, kernel, images):
    assert cost_model.gradient_evaluations(settings("tiny"), scheme, kernel) == 3 * images


def test_a_constant_run_does_not_ask_for_a_full_batchs_hours():
    paper = settings("paper")
    short, long = (cost_model.runtime_minutes(paper, scheme, "hmc") for scheme in ("constant", "full_batch"))
    assert short < 15
    assert long > 4 * 60


def test_requests_follow_the_sizes_and_the_device_that_was_timed():
    paper = settings("paper")
    assert cost_model.seconds(settings("paper", particles=200), "linear", "ld") == pytest.approx(
        2 * cost_model.seconds(paper, "linear", "ld")
    )
    timed = settings("paper", seconds_per_evaluation=5e-6)
    assert cost_model.seconds(timed, "linear", "ld") == pytest.approx(
        2 * cost_model.seconds(paper, "linear", "ld")
    )
    slow = cost_model.seconds(settings("paper", device="cpu"), "linear", "ld")
    assert slow > 10 * cost_model.seconds(paper, "linear", "ld")
    assert cost_model.memory_mb(settings("paper", particles=1000)) > cost_model.memory_mb(paper)


def test_a_retry_asks_for_twice_as_much_and_no_more():
    paper = settings("paper")
    minutes = [cost_model.runtime_minutes(paper, "linear", "ld", attempt) for attempt in (1, 2, 3, 4)]
    assert minutes == [minutes[0]] + [2 * minutes[0]] * 3
    assert cost_model.memory_mb(paper, 4) == 2 * cost_model.memory_mb(paper)
