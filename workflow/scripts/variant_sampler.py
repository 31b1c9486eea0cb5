"""The sampler of the experiments that draw minibatches otherwise or do without weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda.smc.batches import Window
from smcda.smc.resampling import effective_sample_size, multinomial, reweight
from smcda.smc.target import draw_prior, likelihood_sums, prior_log_ratio, target_gradient


def sample_by_hand(
    run: Any, settings: Any, seed: int, minibatch: str, weighted: bool = True
) -> tuple[Any, Any]:
    """The sampler once more, as a plain loop, with minibatches drawn an iteration, a gradient or a particle.

    With the latter two, a particle's log-likelihoods at both ends of a move come from different data, or
    from other data than its rivals': their noise goes into the weights. Not `weighted`, particles are
    chains that know nothing of each other, from first to last.
    """
    target, layout, batches = run.algorithm.target, run.algorithm.layout, run.batches
    n_data, size, h = int(batches.n_data), settings.batch_size, settings.step_size
    particles, n_particles = jnp.array(run.state.particles), settings.particles
    used = 0

    def next_window() -> Window:
        nonlocal used
        start, used = used % n_data, used + size
        whole = (jnp.asarray(at, jnp.int32) for at in (start, start + size, start + size))
        return Window(*whole, jnp.asarray(1.0, jnp.float32))

    @jax.jit
    def look(particles: Any, window: Window) -> tuple[Any, Any]:
        sums = likelihood_sums(target, particles, batches, window, *layout)
        return n_data / size * sums.value[0], target_gradient(target, particles, sums, window, batches.n_data)

    def evaluate(particles: Any, windows: list[Window]) -> tuple[Any, Any]:
        if minibatch != "particle":
            return look(particles, windows[0] if minibatch == "iteration" else next_window())
        parts = [look(particles[j : j + 1], window) for j, window in enumerate(windows)]
        return tuple(jnp.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    ratio = jax.jit(lambda a, b: prior_log_ratio(target, a, b))
    log_weights = run.state.log_weights
    key_start, key = jax.random.split(jax.random.key(seed))  # the run's own draws
    if not weighted:
        particles = draw_prior(jax.random.split(key_start)[0], target, n_particles)
        log_weights = jnp.full(n_particles, -np.log(n_particles))
    for k in range(settings.iterations):
        key_move, key_resample = jax.random.split(jax.random.fold_in(key, k))
        drawn = {"iteration": 1, "gradient": 0, "particle": n_particles}[minibatch]
        windows = [next_window() for _ in range(drawn)]
        value, gradient = evaluate(particles, windows)
        begin, before = particles, value
        momentum = first = jax.random.normal(key_move, particles.shape)
        for _ in range(settings.sweeps):
            momentum = momentum + h / 2 * gradient
            particles = particles + h * momentum
            value, gradient = evaluate(particles, windows)
            momentum = momentum + h / 2 * gradient
        if not weighted:
            continue
        kernel = jnp.sum((first - momentum) * (first + momentum), axis=1) / 2
        log_weights, _ = reweight(log_weights, value - before + ratio(particles, begin) + kernel)
        if effective_sample_size(log_weights) < n_particles / 2:
            particles = particles[multinomial(key_resample, jnp.exp(log_weights))]
            log_weights = jnp.full(n_particles, -np.log(n_particles))
    return particles, log_weights
