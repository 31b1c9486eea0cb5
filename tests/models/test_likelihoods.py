"""Log-probabilities, predictives and metrics of every likelihood are those worked out by other means."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from smcda.errors import BadInput
from smcda.models import likelihoods
from smcda.models.likelihoods import LIKELIHOODS, custom

RNG = np.random.default_rng(5)
N, J = 40, 3
WEIGHTS = np.array([0.5, 0.3, 0.2])
LOG_WEIGHTS = jnp.log(jnp.asarray(WEIGHTS, jnp.float32))
MEANS = RNG.normal(size=(J, N)).astype(np.float32)
LOG_SCALE = np.array([-0.5, 0.1, 0.4], np.float32)
COUNTS = RNG.poisson(3.0, size=N)
REALS = (MEANS[0] + RNG.normal(size=N)).astype(np.float32)


def learnt(means):
    return means, {"log_scale": jnp.asarray(LOG_SCALE)}


def normal(y):
    return stats.norm(MEANS.astype(float), np.exp(LOG_SCALE.astype(float))[:, None])


def poisson(y):
    return stats.poisson(np.exp(MEANS.astype(float)))


def scored(likelihood, outputs, log_weights, y):
    """Metrics as the evaluator takes them: mixed on the device, finished on the host."""
    score = likelihood.score(outputs, log_weights, jnp.asarray(y))
    return likelihood.metrics(jax.tree.map(np.asarray, score), np.asarray(y))


NUMBERS = {
    "gaussian": (likelihoods.gaussian(), learnt(jnp.asarray(MEANS)), REALS, normal),
    "poisson": (likelihoods.poisson(), jnp.asarray(MEANS), COUNTS, poisson),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_the_mixture_of_the_particles_distributions(name):
    likelihood, outputs, y, distribution = NUMBERS[name]
    each = distribution(y)
    log_p = each.logpdf(y) if name == "gaussian" else each.logpmf(y)
    found = jax.vmap(likelihood.log_prob, (0, None))(outputs, jnp.asarray(y))
    np.testing.assert_allclose(found, log_p, rtol=2e-5, atol=2e-5)

    metrics = scored(likelihood, outputs, LOG_WEIGHTS, y)
    assert metrics["test_log_likelihood"] == pytest.approx(np.mean(np.log(WEIGHTS @ np.exp(log_p))), rel=1e-5)
    mean = WEIGHTS @ each.mean()
    assert metrics["test_rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)), rel=1e-5)

    predicted = likelihood.predictive(outputs, LOG_WEIGHTS)
    second = WEIGHTS @ (each.var() + each.mean() ** 2)
    np.testing.assert_allclose(predicted.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(predicted.sd, np.sqrt(second - mean**2), rtol=1e-4)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_central_interval_covers_as_often_as_it_says(name):
    likelihood, outputs, y, distribution = NUMBERS[name]
    which = RNG.choice(J, p=WEIGHTS, size=(4_000, N))
    draws = np.take_along_axis(
        distribution(y).rvs(size=(4_000, J, N), random_state=RNG), which[:, None], axis=1
    )[:, 0]
    score = jax.jit(jax.vmap(lambda y: likelihood.score(outputs, LOG_WEIGHTS, y)["covered"]))
    covered = np.mean(score(jnp.asarray(draws, jnp.float32)))
    # A discrete interval holds at least what it should, and here not much more.
    assert covered == pytest.approx(0.9, abs=0.005) if name == "gaussian" else 0.9 <= covered < 0.97


def test_a_known_scale_is_no_parameter_and_a_column_counts_as_a_vector():
    likelihood = likelihoods.gaussian(scale=0.7)
    assert likelihood.prior is None and likelihoods.gaussian().prior is not None
    found = likelihood.log_prob(jnp.asarray(MEANS[0])[:, None], jnp.asarray(REALS))
    np.testing.assert_allclose(found, stats.norm(MEANS[0], 0.7).logpdf(REALS), rtol=2e-5, atol=2e-5)
    several = likelihood.log_prob(jnp.asarray(MEANS.T), jnp.asarray(MEANS.T + 0.1))
    np.testing.assert_allclose(several, 3 * stats.norm(0, 0.7).logpdf(0.1), rtol=1e-5)


def test_bernoulli_is_two_classes():
    y = (RNG.uniform(size=N) < 0.4).astype(np.float32)
    p = 1 / (1 + np.exp(-MEANS.astype(float)))
    likelihood = likelihoods.bernoulli()
    found = jax.vmap(likelihood.log_prob, (0, None))(jnp.asarray(MEANS), jnp.asarray(y))
    np.testing.assert_allclose(found, np.log(np.where(y, p, 1 - p)), rtol=1e-4, atol=1e-6)
    mixed = WEIGHTS @ p
    np.testing.assert_allclose(likelihood.predictive(jnp.asarray(MEANS), LOG_WEIGHTS), mixed, rtol=1e-5)
    metrics = scored(likelihood, jnp.asarray(MEANS), LOG_WEIGHTS, y)
    assert metrics["test_accuracy"] == pytest.approx(100 * np.mean((mixed > 0.5) == y))


def test_a_custom_likelihood_needs_only_its_log_probability():
    likelihood = custom(lambda outputs, y: -jnp.abs(y - outputs))
    expected = np.log(WEIGHTS @ np.exp(-np.abs(REALS - MEANS)))
    assert scored(likelihood, jnp.asarray(MEANS), LOG_WEIGHTS, REALS) == {
        "test_log_likelihood": pytest.approx(expected.mean(), rel=1e-5)
    }
    assert likelihood.predictive is None


@pytest.mark.parametrize("name", NUMBERS)
def test_a_particle_of_weight_zero_does_not_matter_whatever_it_holds(name):
    likelihood, outputs, y, _ = NUMBERS[name]
    log_weights = jnp.log(jnp.asarray([0.7, 0.3, 0.0]))
    poisoned = jax.tree.map(lambda leaf: leaf.at[2].set(jnp.nan), outputs)
    two = jax.tree.map(lambda leaf: leaf[:2], outputs)
    found = scored(likelihood, poisoned, log_weights, y)
    expected = scored(likelihood, two, log_weights[:2], y)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "outputs", "y", "complaint"),
    [
        ("categorical", (5, 3), np.arange(5), "labels 0 to 4, but 3 logits"),
        ("categorical", (5,), np.arange(5), r"outputs of shape \(5,\), but needs logits"),
        ("categorical", (5, 3), np.zeros(5), "y of type float64"),
        ("bernoulli", (5,), np.arange(5), "y from 0 to 4, but needs 0 or 1"),
        ("bernoulli", (5, 2), np.zeros(5), r"logits of shape \(5, 2\), but y of shape \(5,\)"),
        ("poisson", (5,), np.full(5, -1), "whole numbers of at least 0"),
        ("poisson", (5,), np.full(5, 0.5), "whole numbers of at least 0"),
        ("gaussian", (5, 2), np.zeros(5), r"outputs of shape \(5, 2\), but y of shape \(5,\)"),
    ],
)
def test_outputs_and_y_that_do_not_fit_are_complained_of(name, outputs, y, complaint):
    shape = jax.ShapeDtypeStruct(outputs, jnp.float32)
    likelihood = LIKELIHOODS[name]()
    found = likelihood.check((shape, {}) if likelihood.prior is not None else shape, y)
    assert found is not None and re.search(complaint, found)


@pytest.mark.parametrize(("name", "y"), [("gaussian", REALS), ("poisson", COUNTS)])
def test_what_fits_is_not_complained_of(name, y):
    shape = jax.ShapeDtypeStruct((N, 1), jnp.float32)
    likelihood = LIKELIHOODS[name]()
    assert likelihood.check((shape, {}) if likelihood.prior is not None else shape, y) is None


def test_a_scale_of_zero_is_refused():
    with pytest.raises(BadInput, match="scale of a gaussian likelihood is 0"):
        likelihoods.gaussian(scale=0)
