"""Priors: draws, log-density ratios and gradients of known densities."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smcda.models.flat import flattened
from smcda.models.priors import from_log_density, gaussian
from smcda.smc.batches import Window
from smcda.smc.likelihood import LikelihoodSums
from smcda.smc.target import scale_to_full_data, target_gradient

# Flat order is a[0], a[1], b.
MEAN = {"a": jnp.array([1.0, -2.0]), "b": jnp.array(0.5)}
SCALE = {"a": jnp.array([0.5, 2.0]), "b": 3.0}
FLAT_MEAN, FLAT_SCALE = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, 3.0])
PARTICLES = np.array([[0.25, 1.0, -4.0], [2.0, -3.5, 0.75]])
OTHERS = np.array([[1.5, -2.0, 3.0], [-0.5, 0.0, 1.25]])


def normal_log_density(x):
    terms = -(((x - FLAT_MEAN) / FLAT_SCALE) ** 2) / 2 - np.log(FLAT_SCALE) - math.log(2 * math.pi) / 2
    return terms.sum(axis=-1)


def laplace(rate):
    """A density with kinks, known up to a constant: -rate |a| - |b|."""
    return from_log_density(
        lambda key: {"a": jax.random.laplace(key, (2,)) / rate, "b": jnp.asarray(0.5)},
        lambda p: 7 - rate * jnp.sum(jnp.abs(p["a"])) - jnp.abs(p["b"]),
    )


def test_gaussian_log_ratio_is_the_difference_of_normal_log_densities():
    log_ratio = jax.jit(jax.vmap(flattened(gaussian(MEAN, SCALE)).prior.log_ratio))
    found = log_ratio(PARTICLES, OTHERS)
    np.testing.assert_allclose(found, normal_log_density(PARTICLES) - normal_log_density(OTHERS), rtol=1e-5)


def test_gaussian_log_ratio_of_near_points_keeps_its_digits_in_float32():
    rng = np.random.default_rng(0)
    a = rng.normal(size=100_000).astype(np.float32)
    b = (a + 1e-4 * rng.normal(size=a.size)).astype(np.float32)
    exact = (b.astype(float) ** 2 - a.astype(float) ** 2).sum() / 2
    found = gaussian(jnp.zeros(a.size), jnp.asarray(1.0)).log_ratio(jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_allclose(found, exact, rtol=1e-3)


def test_gaussian_draws_have_its_mean_scale_and_independence():
    n = 20_000
    draw = jax.jit(jax.vmap(flattened(gaussian(MEAN, SCALE)).prior.sample))
    draws = np.asarray(draw(jax.random.split(jax.random.key(5), n)), float)
    assert np.all(np.abs(draws.mean(axis=0) - FLAT_MEAN) < 5 * FLAT_SCALE / math.sqrt(n))
    standard = (draws - FLAT_MEAN) / FLAT_SCALE
    assert np.all(np.abs(np.cov(standard.T) - np.eye(3)) < 5 * math.sqrt(2 / n))
    assert np.all(np.abs((standard**4).mean(axis=0) - 3) < 5 * math.sqrt(96 / n))


def test_draws_keep_the_shape_of_the_mean():
    draw = gaussian(MEAN, SCALE).sample(jax.random.key(0))
    assert jax.tree.map(jnp.shape, draw) == {"a": (2,), "b": ()}


def test_any_density_can_be_a_prior_without_its_constant():
    prior = laplace(2.0)
    a = {"a": jnp.array([1.0, -3.0]), "b": jnp.array(0.5)}
    b = {"a": jnp.array([-0.5, 0.25]), "b": jnp.array(-2.0)}
    assert prior.log_ratio(a, b) == pytest.approx(-8.5 + 3.5)
    key = jax.random.key(2)
    np.testing.assert_array_equal(prior.sample(key)["a"], jax.random.laplace(key, (2,)) / 2)


@pytest.mark.parametrize(
    ("prior", "gradient"),
    [
        (gaussian(MEAN, SCALE), (FLAT_MEAN - PARTICLES) / FLAT_SCALE**2),
        (laplace(2.0), -np.sign(PARTICLES) * [2.0, 2.0, 1.0]),
    ],
    ids=["gaussian", "from_log_density"],
)
def test_the_target_gradient_adds_the_priors_gradient_to_the_scaled_sums(prior, gradient):
    old = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
    new = np.array([[8.0, -4.0, 2.0], [0.0, 12.0, -6.0]])
    sums = LikelihoodSums(jnp.zeros((2, 2)), jnp.asarray(np.stack([old, new])))
    # N = 30 and 10 examples in use, 4 of them at beta 1/4.
    window = Window(*(jnp.asarray(n, jnp.int32) for n in (2, 8, 12)), jnp.asarray(0.25))
    found = jax.jit(partial(target_gradient, flattened(prior).prior, combine=scale_to_full_data))(
        PARTICLES, sums, window, 30
    )
    np.testing.assert_allclose(found, 3 * (old + new / 4) + gradient, rtol=1e-5)


@pytest.mark.parametrize("prior", [gaussian(MEAN, SCALE), laplace(0.5)], ids=["gaussian", "from_log_density"])
def test_the_priors_gradient_is_that_of_its_log_ratio_by_finite_differences(prior):
    flat, step = flattened(prior).prior, 2**-6
    log_ratio = jax.jit(jax.vmap(flat.log_ratio))
    none = LikelihoodSums(jnp.zeros((2, 2)), jnp.zeros((2, 2, 3)))
    window = Window(*(jnp.asarray(0, jnp.int32) for _ in range(3)), jnp.asarray(1.0))
    found = jax.jit(partial(target_gradient, flat, combine=scale_to_full_data))(PARTICLES, none, window, 30)
    for i in range(3):
        shift = step * np.eye(3)[i]
        difference = log_ratio(PARTICLES + shift, PARTICLES - shift) / (2 * step)
        np.testing.assert_allclose(found[:, i], difference, rtol=1e-3)
