"""Whole runs of BlackJAX on a posterior: adaptively tempered SMC with HMC inside, and NUTS.

Both are set as someone would who knows them. SMC takes its inverse mass matrix from the particles after every
stage, in which coordinates one step size suits every stage; and since its last stage moves at the last
temperature but one, a further stage at the posterior itself equalises the weights. NUTS has BlackJAX's window
adaptation. Compiling is not timed. Needs the extra `bench`.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda.bench.timing import Outcome

Density = Callable[[jax.Array], jax.Array]
STEP_SIZE, N_STEPS = 0.65, 2
"""For dimension 20: about a quarter period, since the mass matrix of a stage is from the one before.

Of six settings tried on 4,000 examples, the cheapest whose log evidence was right; three such steps per
trajectory, which come close to half a period, made it 4 nats too small.
"""
TARGET_ESS = 0.5


def tempered_smc(
    log_prior: Density, log_likelihood: Density, particles: jax.Array, key: jax.Array, hmc_steps: int
) -> Outcome:
    """Temper from the prior, from which `particles` are drawn, with `hmc_steps` moves per stage."""
    import blackjax
    from blackjax.smc import extend_params, resampling
    from blackjax.smc.tuning.from_particles import particles_covariance_matrix

    def tuned(particles: jax.Array) -> dict[str, jax.Array]:
        values = {
            "step_size": jnp.asarray(STEP_SIZE),
            "inverse_mass_matrix": particles_covariance_matrix(particles),
            "num_integration_steps": jnp.asarray(N_STEPS),
        }
        return extend_params(values)  # pyright: ignore[reportArgumentType, reportReturnType]

    algorithm: Any = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=log_prior,
        loglikelihood_fn=log_likelihood,
        mcmc_step_fn=blackjax.hmc.build_kernel(),
        mcmc_init_fn=blackjax.hmc.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=lambda key, state, info: tuned(state.particles),
        initial_parameter_value=tuned(particles),
        num_mcmc_steps=hmc_steps,
        target_ess=TARGET_ESS,
    )

    def stage(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        state, info = algorithm.step(key, state)
        return state, info.log_likelihood_increment

    state = jax.tree.map(jnp.asarray, algorithm.init(particles))
    compiled = jax.jit(stage).lower(key, state).compile()
    log_evidence, stages, is_last = 0.0, 0, False
    started = time.perf_counter()
    while not is_last:
        is_last = float(state.sampler_state.tempering_param) >= 1
        state, increment = compiled(jax.random.fold_in(key, stages), state)
        log_evidence += float(increment)
        stages += 1
    weights, last = state.sampler_state.weights, state.sampler_state.particles
    mean = np.asarray(weights @ last)
    seconds = time.perf_counter() - started
    # A stage starts with one gradient; two more evaluations, for temperature and weights, are values only.
    return Outcome(mean, log_evidence, stages * (1 + hmc_steps * N_STEPS), seconds)


def nuts(log_density: Density, start: jax.Array, key: jax.Array, warmup: int, draws: int) -> Outcome:
    """One chain from `start`: window adaptation, then `draws` draws."""
    import blackjax

    def chain(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_warmup, key_draws = jax.random.split(key)
        adaptation: Any = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), info = adaptation.run(key_warmup, start, warmup)
        algorithm: Any = blackjax.nuts(log_density, **parameters)

        def draw(state: Any, key: jax.Array) -> tuple[Any, tuple[jax.Array, jax.Array]]:
            state, info = algorithm.step(key, state)
            return state, (state.position, info.num_integration_steps)

        _, (positions, steps) = jax.lax.scan(draw, state, jax.random.split(key_draws, draws))
        return positions.mean(axis=0), jnp.sum(steps) + jnp.sum(info.info.num_integration_steps)

    compiled = jax.jit(chain).lower(key).compile()
    started = time.perf_counter()
    mean, gradients = jax.block_until_ready(compiled(key))
    return Outcome(np.asarray(mean), np.nan, int(gradients), time.perf_counter() - started)
