r"""The sampler: sequential Monte Carlo whose target takes in more data as it goes.

Particles are drawn from the prior and weighted by ``w_0 = pi_0 / q0``. Each iteration k then
brings data in, moves every particle by leapfrog from a fresh momentum P without accept-reject,
reweights,

    log w_k = log w_{k-1} + log pi_k(theta_k) - log pi_*(theta_{k-1}) + log N(-P_k) - log N(P_{k-1}),

and resamples when J_eff < J/2. With ``weight_target: previous``, pi_* is pi_{k-1}: exact for a target
that moves, and the product of mean weights estimates the evidence. With ``current``, pi_* is pi_k:
the equation as the paper prints it, which treats the scaled batch as an estimate of one fixed target
and is exact only where the target stands still (`full_batch`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from smcda.parallel.plan import Layout
from smcda.parallel.sharding import Placement
from smcda.smc.batches import Batches, Window
from smcda.smc.kernels import Kernel, Position
from smcda.smc.resampling import Resampler, distinct, effective_sample_size, reweight
from smcda.smc.schedules import Advance
from smcda.smc.target import (
    LikelihoodSums,
    Target,
    bring_in,
    draw_prior,
    likelihood_sums,
    prior_log_ratio,
    scaled,
    target_gradient,
)


class Algorithm(NamedTuple):
    """What stays the same for a whole run and shapes the compiled program."""

    target: Target
    advance: Advance
    kernel: Kernel
    resample: Resampler
    weigh_by_previous: bool
    layout: Layout


class Knobs(NamedTuple):
    """What stays the same for a whole run but is only a number to the compiled program."""

    step_size: Float[Array, ""]
    sweeps: Int[Array, ""]
    table: Any


class SMCState(NamedTuple):
    """Weighted particles, and what is already known about them."""

    particles: Float[Array, "particle parameter"]
    log_weights: Float[Array, " particle"]
    sums: LikelihoodSums
    window: Window
    lineage: Int[Array, " particle"]
    log_evidence: Float[Array, ""]
    iteration: Int[Array, ""]


def placed(placement: Placement) -> Any:
    """Where each part of a state lives; what there is one of a particle is known everywhere."""
    everywhere: Any = placement.everywhere
    particles: Any = placement.along(0)
    gradients: Any = placement.along(1)
    return SMCState(
        particles=particles,
        log_weights=everywhere,
        sums=LikelihoodSums(everywhere, gradients),
        window=Window(everywhere, everywhere, everywhere, everywhere),
        lineage=everywhere,
        log_evidence=everywhere,
        iteration=everywhere,
    )


class SMCInfo(NamedTuple):
    """One row of the trace. `images` counts what each particle evaluated; `log_likelihood` is an image's."""

    batch_size: Int[Array, "..."]
    beta: Float[Array, "..."]
    ess: Float[Array, "..."]
    resampled: Bool[Array, "..."]
    unique_ancestors: Int[Array, "..."]
    log_likelihood: Float[Array, "..."]
    images: Int[Array, "..."]


def init(
    key: PRNGKeyArray, algorithm: Algorithm, first: Window, batches: Batches, n_particles: int
) -> SMCState:
    """Draw from the prior, weigh by the first target, resample if need be."""
    key_prior, key_resample = jax.random.split(key)
    particles = draw_prior(key_prior, algorithm.target, n_particles)
    sums = likelihood_sums(algorithm.target, particles, batches, first, *algorithm.layout)
    uniform = jnp.full(n_particles, -jnp.log(n_particles))
    log_weights, log_evidence = reweight(uniform, scaled(first, batches.n_data, sums.value))
    state = SMCState(
        particles,
        log_weights,
        sums,
        first,
        lineage=jnp.arange(n_particles),
        log_evidence=log_evidence,
        iteration=jnp.asarray(0, jnp.int32),
    )
    return resample_if_needed(key_resample, state, algorithm.resample)[0]


def step(
    key: PRNGKeyArray, state: SMCState, algorithm: Algorithm, knobs: Knobs, batches: Batches
) -> tuple[SMCState, SMCInfo]:
    """One iteration: bring data in, move, reweight, resample if J_eff < J/2."""
    target, n_data = algorithm.target, batches.n_data
    key_move, key_resample = jax.random.split(jax.random.fold_in(key, state.iteration))

    weights = jnp.exp(state.log_weights)
    window = algorithm.advance(knobs.table, state.iteration, state.window, weights, state.sums.value)

    def evaluate(particles: Array) -> Position:
        sums = likelihood_sums(target, particles, batches, window, *algorithm.layout)
        return Position(particles, sums, target_gradient(target, particles, sums, window, n_data))

    def evaluate_unmoved(part: Window) -> LikelihoodSums:
        return likelihood_sums(target, state.particles, batches, part, *algorithm.layout)

    sums, arrived = bring_in(state.sums, state.window, window, evaluate_unmoved)
    gradient = target_gradient(target, state.particles, sums, window, n_data)
    moved, log_kernel_ratio = algorithm.kernel.move(
        key_move, Position(state.particles, sums, gradient), evaluate, knobs.step_size, knobs.sweeps
    )

    if algorithm.weigh_by_previous:
        before = scaled(state.window, n_data, state.sums.value)
    else:
        before = scaled(window, n_data, sums.value)
    increment = (
        scaled(window, n_data, moved.sums.value)
        - before
        + prior_log_ratio(target, moved.particles, state.particles)
        + log_kernel_ratio
    )
    log_weights, log_mean = reweight(state.log_weights, increment)
    state = state._replace(
        particles=moved.particles,
        log_weights=log_weights,
        sums=moved.sums,
        window=window,
        log_evidence=state.log_evidence + log_mean,
        iteration=state.iteration + 1,
    )
    resampled_state, resampled = resample_if_needed(key_resample, state, algorithm.resample)
    info = SMCInfo(
        batch_size=window.size,
        beta=window.beta,
        ess=effective_sample_size(log_weights),
        resampled=resampled,
        unique_ancestors=distinct(resampled_state.lineage),
        log_likelihood=mean_log_likelihood(state),
        images=arrived + knobs.sweeps * window.size,
    )
    return resampled_state, info


def resample_if_needed(
    key: PRNGKeyArray, state: SMCState, resample: Resampler
) -> tuple[SMCState, Bool[Array, ""]]:
    """Draw ancestors and reset the weights to 1/J when J_eff < J/2; what is known moves along."""
    n_particles = state.log_weights.size
    ess = effective_sample_size(state.log_weights)
    needed = (ess < n_particles / 2) & (ess > 0)

    def draw(state: SMCState) -> SMCState:
        ancestors = resample(key, jnp.exp(state.log_weights))
        return state._replace(
            particles=state.particles[ancestors],
            sums=LikelihoodSums(state.sums.value[:, ancestors], state.sums.gradient[:, ancestors]),
            lineage=state.lineage[ancestors],
            log_weights=jnp.full_like(state.log_weights, -jnp.log(n_particles)),
        )

    return jax.lax.cond(needed, draw, lambda state: state, state), needed


def mean_log_likelihood(state: SMCState) -> Float[Array, ""]:
    """Weighted mean over particles of the log-likelihood of an example in use."""
    weights = jnp.exp(state.log_weights)
    one = jnp.asarray(1, jnp.int32)
    per_image = scaled(state.window, one, state.sums.value)
    return jnp.sum(jnp.where(weights > 0, weights * per_image, 0.0))
