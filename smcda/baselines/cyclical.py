r"""Cyclical stochastic-gradient HMC on the sampler's own posterior.

After Chen, Fox, Guestrin (2014) and Zhang et al. (2020), with another integrator.

Per step, with g the gradient of the log-posterior on a minibatch scaled to all N examples, momentum share a
and z ~ N(0, I),

    theta <- theta + h/2 v
    v     <- v + h g(theta)
    theta <- theta + h/2 v
    v     <- a v + sqrt(1 - a^2) z,

underdamped Langevin dynamics at temperature one: exact up to O(h^2) with all data, and up to the noise of
minibatches. The step size is h = sqrt(rate / N), where `rate` is what a learning rate is to the mean loss; it
falls from its largest value to zero by half a cosine in every cycle. Noise is never switched off. Each chain
keeps its state at the end of a cycle, so the first cycle is the burn-in of the first sample.

Of several largest rates that one is chosen whose chains, after one cycle on part of the training data, have
the best mixture on the rest of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from smcda.baselines.config import SGHMCConfig
from smcda.baselines.epochs import Epochs, Mean
from smcda.baselines.search import Candidate
from smcda.smc.likelihood import Particles
from smcda.smc.target import FlatPrior


def make_step(prior: FlatPrior, momentum: float, n_data: int, cycle_steps: int) -> Any:
    """One step of all chains; params are the largest learning rate."""
    noise = float(np.sqrt(1 - momentum**2))

    def step(
        key: PRNGKeyArray, state: Any, mean: Callable[[Particles], Mean], rate: Array
    ) -> tuple[Any, Array]:
        particles, velocity, i = state
        share = 0.5 * (1 + jnp.cos(jnp.pi * (i % cycle_steps) / cycle_steps))
        h = jnp.sqrt(rate * share / n_data)
        particles = particles + h / 2 * velocity
        value, gradient = mean(particles)
        velocity = velocity + h * (n_data * gradient + jax.vmap(prior.gradient)(particles))
        particles = particles + h / 2 * velocity
        velocity = momentum * velocity + noise * jax.random.normal(key, velocity.shape)
        return (particles, velocity, i + 1), value

    return step


def sample(
    epochs: Epochs,
    config: SGHMCConfig,
    particles: Particles,
    learning_rate: float,
    key: PRNGKeyArray,
    n_cycles: int,
) -> Iterator[tuple[int, Particles, float, bool]]:
    """Give after every epoch its number, the chains, the log-likelihood, and whether a cycle ends with it."""
    velocity = jax.random.normal(jax.random.fold_in(key, 0), particles.shape)
    state = particles, velocity, jnp.int32(0)
    rate = jnp.float32(learning_rate)
    for epoch in range(1, n_cycles * config.cycle_epochs + 1):
        state, value = epochs(jax.random.fold_in(key, epoch), state, rate)
        yield epoch, state[0], value, epoch % config.cycle_epochs == 0


def search(
    epochs: Epochs,
    config: SGHMCConfig,
    particles: Particles,
    key: PRNGKeyArray,
    score: Callable[[Particles], float],
) -> Iterator[Candidate]:
    """Run one cycle with each learning rate; one with which chains leave the numbers has a score of -inf."""
    for rate in config.learning_rate:
        found, value = particles, 0.0
        for _, chains, mean, _ in sample(epochs, config, particles, rate, key, 1):
            found, value = chains, mean
            if not np.isfinite(value):
                break
        yield Candidate(rate, score(found) if np.isfinite(value) else -np.inf, config.cycle_epochs)
