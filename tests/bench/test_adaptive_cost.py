"""What the measure of the adaptive sampler compares, at its quick size."""

import importlib.util

import numpy as np
import pytest

from smcda.bench import adaptive
from smcda.bench.timing import QUICK

N_DATA = str(QUICK.regressions[0][0])


@pytest.fixture(scope="module")
def regression():
    return adaptive.make_regression(2_000)


@pytest.mark.slow
def test_annealing_data_costs_less_than_tempering_all_and_finds_the_same_evidence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    figures = adaptive.cost_of_adaptive(QUICK)
    annealed, tempered = (figures["adaptive"][N_DATA]["samplers"][name] for name in ("adaptive", "tempering"))
    assert annealed["gradients"] < 0.75 * tempered["gradients"]
    assert figures["adaptive_over_tempering"][N_DATA] == annealed["gradients"] / tempered["gradients"]
    # About four standard errors with 100 particles: of the evidence 0.6 nats, of a mean 0.1 sds.
    for found in (annealed, tempered):
        assert abs(found["log_evidence_minus_laplace"][0]) < 2.4
        assert found["error_of_mean"] < 0.2
    assert figures["blackjax_smc_over_adaptive"] is None


@pytest.mark.slow
def test_blackjax_finds_the_same_posterior_and_its_gradients_are_counted(regression):
    pytest.importorskip("blackjax")
    tempered = adaptive.blackjax_samplers(regression, 200)["blackjax_smc"](0)
    assert abs(tempered.log_evidence - regression.log_evidence) < 3
    assert np.sqrt(np.mean(((tempered.mean - regression.mean) / regression.sd) ** 2)) < 0.2
    # Per stage: one at the start, and those of three moves of two steps.
    assert tempered.gradients % 7 == 0


def test_the_reference_is_the_mean_and_not_the_mode(regression):
    # Importance sampling from the Laplace approximation at the mean, good in any dimension as low as this.
    x, y = regression.x.astype(float), regression.y.astype(float)
    p = 1 / (1 + np.exp(-x @ regression.mean))
    hessian = (x.T * (p * (1 - p))) @ x + np.eye(x.shape[1])
    noise = np.random.default_rng(1).normal(size=(5_000, x.shape[1]))
    factor = np.linalg.cholesky(np.linalg.inv(hessian))
    weights = regression.mean + noise @ factor.T
    logit = weights @ x.T
    log_joint = (logit @ y - np.logaddexp(0, logit).sum(axis=1)) - np.sum(weights**2, axis=1) / 2
    log_ratio = log_joint + np.sum(noise**2, axis=1) / 2
    ratio = np.exp(log_ratio - log_ratio.max())
    mean = ratio @ weights / ratio.sum()
    error = (mean - regression.mean) / regression.sd
    assert np.sqrt(np.mean(error**2)) < 0.05
    log_evidence = log_ratio.max() + np.log(ratio.mean()) - np.linalg.slogdet(hessian)[1] / 2
    assert log_evidence == pytest.approx(regression.log_evidence, abs=0.2)


def test_a_sampler_with_twice_the_error_needs_four_times_the_evaluations():
    one = {"gradients": 100.0, "seconds": 3.0, "error_of_mean": 0.1}
    other = {"gradients": 50.0, "seconds": 3.0, "error_of_mean": 0.2}
    assert adaptive.at_equal_error(other, one) == pytest.approx(2.0)
    assert adaptive.at_equal_error(other, one, "seconds") == pytest.approx(4.0)
