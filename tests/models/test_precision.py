"""What the precision of matrix products does to the weights of a run, in nats."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.rounded_products import float32, tf32, tf32x3, with_products

from smcda.bench.timing import images
from smcda.models.flat import flattened
from smcda.models.lenet import make_model

pytestmark = pytest.mark.slow

N_DATA, N_PARTICLES, N_IMAGES, SETTLING_MOVES = 60_000, 4, 100, 60
STEP_SIZE, LEAPFROG_STEPS = 0.002, 3
DATA = images(N_IMAGES)
IMAGES, LABELS = jnp.asarray(DATA.train_x), jnp.asarray(DATA.train_y)
MODEL = make_model("lenet5", 0.1)
FLAT = flattened(MODEL.prior)


def value_and_gradient(particles):
    def value(particle):
        return jnp.sum(MODEL.log_likelihood(FLAT.unravel(particle), IMAGES, LABELS))

    return jax.vmap(jax.value_and_grad(value))(particles)


@jax.jit
def kick(position, momentum, gradient):
    """Half a step of the momentum under the scaled target."""
    gradient = N_DATA / N_IMAGES * gradient + jax.vmap(FLAT.prior.gradient)(position)
    return momentum + STEP_SIZE / 2 * gradient


@jax.jit
def log_weight_increment(before, after):
    (particles, momenta, first), (position, momentum, value) = before, after
    kinetic = jnp.sum((momenta - momentum) * (momenta + momentum), axis=1) / 2
    prior = jax.vmap(FLAT.prior.log_ratio)(position, particles)
    return N_DATA / N_IMAGES * (value - first) + prior + kinetic


def leapfrog(evaluate, position, momentum, value_and_gradient, n_steps):
    """Where particles end, with what momentum, value and gradient."""
    value, gradient = value_and_gradient
    for _ in range(n_steps):
        momentum = kick(position, momentum, gradient)
        position = position + STEP_SIZE * momentum
        value, gradient = evaluate(position)
        momentum = kick(position, momentum, gradient)
    return position, momentum, (value, gradient)


@pytest.fixture(scope="module")
def errors():
    """Standard deviation over particles of a log-weight increment's error, and of the increment itself."""
    keys = jax.random.split(jax.random.key(0), N_PARTICLES)
    momenta = jax.random.normal(jax.random.key(1), (SETTLING_MOVES + 1, N_PARTICLES, FLAT.n_parameters))
    evaluate = {p.__name__: jax.jit(with_products(value_and_gradient, p)) for p in (float32, tf32x3, tf32)}
    particles = jax.jit(jax.vmap(FLAT.prior.sample))(keys)
    known = evaluate["float32"](particles)
    for some in momenta[:-1]:
        particles, _, known = leapfrog(evaluate["float32"], particles, some, known, 1)

    def increments(precision, dtype=np.float32):
        start, momentum = (jnp.asarray(np.asarray(a), dtype) for a in (particles, momenta[-1]))
        known = evaluate[precision](start)
        position, end, after = leapfrog(evaluate[precision], start, momentum, known, LEAPFROG_STEPS)
        found = log_weight_increment((start, momentum, known[0]), (position, end, after[0]))
        return np.asarray(found, np.float64)

    with jax.enable_x64(True):
        exact = increments("float32", np.float64)
    found = {precision: np.std(increments(precision) - exact) for precision in evaluate}
    return found | {"itself": np.std(exact)}


@pytest.mark.parametrize("precision", ["float32", "tf32x3"])
def test_products_as_exact_as_float32_leave_the_weights_alone(errors, precision):
    assert errors[precision] < 0.01


def test_tf32_adds_noise_to_the_weights(errors, record_property):
    record_property("nats", {name: float(nats) for name, nats in errors.items()})
    assert errors["tf32"] > 0.1
    assert errors["tf32"] > 20 * max(errors["float32"], errors["tf32x3"])
