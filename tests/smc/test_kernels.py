"""The leapfrog map by hand, and the properties that the weight relies on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smcda.smc.kernels import KERNELS, Position, leapfrog
from smcda.smc.likelihood import LikelihoodSums

STIFFNESS = jnp.array([1.0, 4.0])
START = jnp.array([[0.5, -0.25], [1.0, 2.0]])


def evaluate(particles):
    """A Gaussian: log pi = -sum(stiffness theta^2) / 2."""
    sums = LikelihoodSums(jnp.zeros((2, len(particles))), jnp.zeros((2, *particles.shape)))
    return Position(particles, sums, -STIFFNESS * particles)


def move(key, h, steps):
    return leapfrog(key, evaluate(START), evaluate, jnp.float32(h), jnp.int32(steps))


def by_hand(theta, momentum, h, steps):
    for _ in range(steps):
        momentum = momentum - h / 2 * STIFFNESS * theta
        theta = theta + h * momentum
        momentum = momentum - h / 2 * STIFFNESS * theta
    return theta, momentum


@pytest.mark.parametrize(("h", "steps"), [(0.1, 1), (0.3, 3)])
def test_positions_and_weights_follow_the_leapfrog_equations(h, steps):
    key = jax.random.key(3)
    momentum = jax.random.normal(key, START.shape)
    theta, end = by_hand(START, momentum, h, steps)
    moved = move(key, h, steps)
    np.testing.assert_allclose(moved.position.particles, theta, rtol=1e-5)
    np.testing.assert_allclose(moved.position.gradient, -STIFFNESS * theta, rtol=1e-5)
    kinetic = (momentum**2).sum(axis=1) / 2 - (end**2).sum(axis=1) / 2
    np.testing.assert_allclose(moved.log_kernel_ratio, kinetic, rtol=1e-4, atol=1e-5)


def test_leapfrog_from_the_end_with_the_momentum_turned_leads_to_the_start(monkeypatch):
    momentum = jnp.array([[0.7, -0.1], [-1.0, 0.4]])
    draws = iter([momentum])
    monkeypatch.setattr("smcda.smc.kernels.normal", lambda *_: next(draws))
    there = move(jax.random.key(0), 0.3, 3)
    _, end = by_hand(START, momentum, 0.3, 3)
    draws = iter([-end])
    back = leapfrog(jax.random.key(0), there.position, evaluate, jnp.float32(0.3), jnp.int32(3))
    np.testing.assert_allclose(back.position.particles, START, rtol=1e-5)
    np.testing.assert_allclose(back.log_kernel_ratio, -there.log_kernel_ratio, atol=1e-6)


def test_the_error_in_energy_shrinks_with_the_square_of_the_step():
    def error(h):
        moved = move(jax.random.key(3), h, round(0.6 / h))
        before, after = START, moved.position.particles
        change = (STIFFNESS * (before**2 - after**2)).sum(axis=1) / 2
        return np.abs(np.asarray(change + moved.log_kernel_ratio)).max()

    assert error(0.1) < error(0.2) / 3


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_kernel_counts_the_gradients_that_it_takes(kernel):
    calls = []

    def counted(particles):
        jax.debug.callback(lambda: calls.append(1))
        return evaluate(particles)

    kernel.move(jax.random.key(0), evaluate(START), counted, jnp.float32(0.1), jnp.int32(4))
    jax.effects_barrier()
    assert len(calls) == kernel.gradients(4)
