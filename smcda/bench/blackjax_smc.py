"""The same work done by BlackJAX: its partial-posteriors SMC with its HMC step inside.

BlackJAX admits data by a mask over all of them, so that a stage that uses 500 of 10,000 images computes
10,000, and it evaluates the log-density again before each move and twice for the weights. Its log-density
here is our fast network rather than a plain one, summed over slices of images: what is compared is the
sampler. Needs the extra `bench`.
"""

from typing import Any

import jax
import jax.numpy as jnp

from smcda.bench.timing import Call, Case


def partial_posteriors(case: Case, n_images: int, n_data: int, step_size: float) -> Call:
    """One iteration of BlackJAX on the particles of `case`, with `n_images` of `n_data` unmasked."""
    import blackjax
    import blackjax.smc.partial_posteriors_path
    import blackjax.smc.resampling

    model, flat, data = case.model, case.run.flat, case.run.data
    slices = max(1, n_data // 500)
    x = data.x[:n_data].reshape(slices, -1, 28, 28)
    y = data.y[:n_data].reshape(slices, -1)

    def log_posterior_of(mask: jax.Array) -> Any:
        def log_posterior(particle: jax.Array) -> jax.Array:
            parameters = flat.unravel(particle)
            each = jax.lax.map(lambda part: model.log_likelihood(parameters, *part), (x, y)).reshape(-1)
            prior = model.joint_prior.log_ratio(parameters, jax.tree.map(jnp.zeros_like, parameters))
            return n_data / jnp.maximum(jnp.sum(mask), 1.0) * jnp.sum(mask * each) + prior

        return log_posterior

    parameters = {
        "step_size": jnp.asarray([step_size]),
        "inverse_mass_matrix": jnp.ones((1, flat.n_parameters)),
        "num_integration_steps": jnp.asarray([3]),
    }
    algorithm = blackjax.partial_posteriors_smc(
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        parameters,
        blackjax.smc.resampling.multinomial,
        num_mcmc_steps=1,
        partial_logposterior_factory=log_posterior_of,
    )
    state = blackjax.smc.partial_posteriors_path.init(case.particles, n_data)
    mask = (jnp.arange(n_data) < n_images).astype(jnp.float32)
    step = jax.jit(algorithm.step).lower(jax.random.key(0), state, mask).compile()
    return lambda: step(jax.random.key(0), state, mask)


def hmc_step(case: Case, n_images: int, step_size: float) -> Call:
    """One HMC step of BlackJAX, mapped over the particles, on the first images with nothing masked."""
    import blackjax

    model, flat, data = case.model, case.run.flat, case.run.data
    x, y = data.x[:n_images], data.y[:n_images]

    def log_posterior(particle: jax.Array) -> jax.Array:
        parameters = flat.unravel(particle)
        prior = model.joint_prior.log_ratio(parameters, jax.tree.map(jnp.zeros_like, parameters))
        return jnp.sum(model.log_likelihood(parameters, x, y)) + prior

    algorithm = blackjax.hmc(log_posterior, step_size, jnp.ones(flat.n_parameters), 3)
    states = jax.jit(jax.vmap(algorithm.init))(case.particles)
    keys = jax.random.split(jax.random.key(0), len(case.particles))
    step = jax.jit(jax.vmap(algorithm.step)).lower(keys, states).compile()
    return lambda: step(keys, states)
