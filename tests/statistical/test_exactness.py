"""Known answers: a conjugate posterior, over repeated keys, within four Monte Carlo standard errors."""

import numpy as np
import pytest
from helpers import gaussian

from smcda.config import SamplerConfig

N_KEYS = 32
MOVING = ["full_batch", "linear", "automated", "smooth_data_annealing"]
CASES = [(scheme, kernel, "previous") for scheme in MOVING for kernel in ("ld", "hmc")]
CASES += [("full_batch", kernel, "current") for kernel in ("ld", "hmc")]
QUICK = [("smooth_data_annealing", "ld", "previous")]


def config(scheme, kernel, weight_target, **others):
    step_size = {"ld": 0.25, "hmc": 0.2}[kernel]
    values = {"particles": 2000, "iterations": 16, "batch_size": 5, "initial_batch": 10, "micro_batch": 30}
    values |= others
    return SamplerConfig(
        scheme=scheme, kernel=kernel, weight_target=weight_target, step_size=step_size, **values
    )


def assert_exact(chosen, noise=0.03):
    found = gaussian.errors(chosen, N_KEYS)
    assert {name: value for name, value in found.distance.items() if value > 4} == {}
    assert {name: value for name, value in found.noise.items() if value > noise} == {}


@pytest.mark.parametrize(
    ("scheme", "kernel", "weight_target"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case not in QUICK)) for case in CASES],
)
def test_the_posterior_and_its_evidence_are_exact(scheme, kernel, weight_target):
    assert_exact(config(scheme, kernel, weight_target))


@pytest.mark.slow
@pytest.mark.parametrize("resampling", ["systematic", "stratified", "residual"])
def test_every_resampler_leaves_the_posterior_exact(resampling):
    assert_exact(config("linear", "ld", "previous", resampling=resampling))


@pytest.mark.slow
def test_a_batch_size_that_does_not_divide_the_data_leaves_the_posterior_exact():
    odd = config("linear", "hmc", "previous", batch_size=7, initial_batch=11, micro_batch=4)
    assert_exact(odd)


@pytest.mark.slow
def test_fresh_minibatches_are_corrected_for_too():
    assert_exact(config("constant_to_refine", "ld", "previous"), noise=0.1)


@pytest.mark.slow
def test_weighting_by_the_current_target_is_biased_when_the_target_moves():
    found = gaussian.errors(config("linear", "ld", "current"), N_KEYS)
    assert found.distance["mean"] > 15


@pytest.mark.slow
def test_these_problems_make_the_sampler_resample_and_use_all_data():
    found = gaussian.estimate(config("smooth_data_annealing", "ld", "previous"), 8)
    assert np.all(found.resampled >= 1)
    assert np.all(found.beta == 1)
    assert np.all(found.batch_size == gaussian.N_DATA)
