"""What a scheduler is asked for: it follows the sizes, the kernel's gradients and the device."""

from dataclasses import replace

import pytest
from helpers.study import study_of
from lib import resources

from smcda.smc.kernels import KERNELS


@pytest.mark.parametrize(
    ("scheme", "kernel", "images"),
    [
        # K = 10, N = 100, C = kappa = 20; LD takes one gradient per move, HMC three.
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
    assert resources.sampling_cost(study_of(scale="tiny"), "mnist", scheme, kernel) == 3 * images


def test_a_kernel_of_ten_steps_is_budgeted_ten_gradients_per_move(monkeypatch):
    kernel = KERNELS["hmc"]._replace(default_steps=10, steps_are_fixed=True)
    monkeypatch.setitem(KERNELS, "long_hmc", kernel)
    tiny = study_of(scale="tiny")
    tiny = replace(tiny, settings=tiny.settings | {"kernels": ["long_hmc"]})
    assert resources.sampling_cost(tiny, "mnist", "constant", "long_hmc") == 3 * 10 * 11 * 20


def test_an_ablation_asks_for_what_its_own_settings_cost():
    cpu = study_of(scale="cpu")
    base, wide, long = (
        resources.seconds(each, "mnist", "constant", "ld")
        for each in (cpu, cpu.at("ablations/particles_8"), cpu.at("ablations/ld_equal_gradients"))
    )
    assert wide == pytest.approx(2 * base)
    assert long == pytest.approx(2 * base)


def test_a_constant_run_does_not_ask_for_the_hours_of_a_full_batch():
    paper = study_of(scale="paper")
    short, long = (resources.request(paper, "mnist", scheme, "hmc") for scheme in ("constant", "full_batch"))
    assert short["runtime"] < 15
    assert long["runtime"] > 10 * short["runtime"]


def test_requests_follow_the_sizes_and_the_device_that_was_timed():
    def seconds(**changes):
        return resources.seconds(study_of(scale="paper", **changes), "mnist", "linear", "ld")

    def asked(**changes):
        return resources.request(study_of(scale="paper", **changes), "mnist", "linear", "ld")

    assert seconds(particles=200) == pytest.approx(2 * seconds())
    assert seconds(seconds_per_evaluation=2e-6) == pytest.approx(2 * seconds())
    assert seconds(device="cpu") > 10 * seconds()
    assert asked(particles=1000)["mem_mb"] > asked()["mem_mb"]
    assert [asked(device=device)["gpu"] for device in ("gpu", "auto", "cpu")] == [1, 1, 0]


def test_a_retry_asks_for_twice_as_much_time_and_memory_and_no_more():
    asked = [
        resources.request(study_of(scale="paper"), "mnist", "linear", "ld", attempt)
        for attempt in (1, 2, 3, 4)
    ]
    for name in ("runtime", "mem_mb"):
        assert [each[name] for each in asked] == [asked[0][name]] + [2 * asked[0][name]] * 3
    assert {each["gpu"] for each in asked} == {1}
