r"""The sampler: sequential Monte Carlo whose target takes in more data as it goes.

Particles are drawn from a start q, the prior q0 unless another is given, and weighted by ``w_0 = pi_0 / q``.
Each iteration k then admits data, moves every particle by leapfrog from a fresh momentum P without
accept-reject, reweights,

    log w_k = log w_{k-1} + log pi_k(theta_k) - log pi_*(theta_{k-1}) + log N(-P_k) - log N(P_{k-1}),

and resamples when J_eff < J/2 (Del Moral, Doucet, Jasra 2006, sec. 3.1; Millard et al. 2026, arXiv
2601.21983). With ``weight_target: previous``, pi_* is pi_{k-1}: exact for a target that moves, and the
product of mean weights estimates the evidence. With ``current``, pi_* is pi_k: the equation as the paper
prints it, which treats the scaled batch as an estimate of one fixed target and is exact only where the
target stands still (`full_batch`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from smcda.smc.batches import ShuffledData, Window
from smcda.smc.kernels import Kernel, Position
from smcda.smc.likelihood import NEW, OLD, BatchLikelihood, LikelihoodSums, Particles, Replicate, identity
from smcda.smc.resampling import Resampler, effective_sample_size, n_unique, reweight
from smcda.smc.schedules.base import NextBeta, NextWindow
from smcda.smc.target import (
    Combine,
    FlatPrior,
    FlatStart,
    extend_cache,
    scale_to_full_data,
    target_gradient,
)


class SMCKernel(NamedTuple):
    """The functions that make up one run's sampler; static, so they shape the compiled program.

    `combine` makes a target of likelihood sums. `weight_by_previous` corrects the weights for the change of
    the target: ``weight_target: previous``. `next_beta` is that of `Schedule`. `start` is where the first
    particles come from, the prior unless one is given. `weigh` combines likelihood sums for the weights of
    unadjusted moves, `combine` unless one is given; with `equal_weights` all that are finite stay equal.

    `replicate` makes numbers per particle known to every device that shares the particles. Weights, and with
    them whatever decides what happens next, are computed from such numbers on each device alike.
    """

    likelihood: BatchLikelihood
    prior: FlatPrior
    next_window: NextWindow
    move: Kernel
    resample: Resampler
    combine: Combine
    weight_by_previous: bool
    next_beta: NextBeta | None = None
    start: FlatStart | None = None
    weigh: Combine | None = None
    equal_weights: bool = False
    replicate: Replicate = identity


class SMCParams(NamedTuple):
    """The numbers of one run's sampler; traced, so that changing them compiles nothing again."""

    step_size: Float[Array, ""]
    n_leapfrog_steps: Int[Array, ""]
    schedule: Any
    max_moves: Int[Array, ""]
    final_moves: Int[Array, ""]


class SMCState(NamedTuple):
    """Weighted particles, their cached likelihoods, and which first particle each descends from.

    `adaptation` is an `Adaptation` where moves are adjusted.
    """

    particles: Float[Array, "particle parameter"]
    log_weights: Float[Array, " particle"]
    likelihood: LikelihoodSums
    window: Window
    root_ancestor: Int[Array, " particle"]
    log_evidence: Float[Array, ""]
    iteration: Int[Array, ""]
    adaptation: Any = None


class MoveInfo(NamedTuple):
    """The part of a trace's row that adjusted moves add.

    `acceptance` is the mean acceptance probability, `n_moves` counts since the target changed, `correlation`
    is that of `Adaptation`, `log_likelihood_sd` the spread over particles of the likelihood in the target.
    """

    acceptance: Float[Array, "..."]
    step_size: Float[Array, "..."]
    leapfrog_steps: Int[Array, "..."]
    n_moves: Int[Array, "..."]
    correlation: Float[Array, "..."]
    log_likelihood_sd: Float[Array, "..."]


class SMCInfo(NamedTuple):
    """One row of the trace; `evaluations` counts per particle, `log_likelihood` is per example.

    `energy_error` is the weighted mean of ``|log pi_k(theta_k) - log pi_k(theta_{k-1}) + log N(-P_k) -
    log N(P_{k-1})|``, which leapfrog would keep at zero with an infinitely small step.
    """

    batch_size: Int[Array, "..."]
    beta: Float[Array, "..."]
    ess: Float[Array, "..."]
    resampled: Bool[Array, "..."]
    unique_ancestors: Int[Array, "..."]
    log_likelihood: Float[Array, "..."]
    energy_error: Float[Array, "..."]
    evaluations: Int[Array, "..."]
    moves: MoveInfo | None = None


def init(
    key: PRNGKeyArray, kernel: SMCKernel, first: Window, data: ShuffledData, n_particles: int
) -> tuple[SMCState, Particles]:
    """Draw from the start, weight by the first target, resample if ESS < J/2; also give the draws."""
    key_start, key_resample = jax.random.split(key)
    particles, log_start_weights = draw_first(key_start, kernel, n_particles)
    sums = weighable(kernel, kernel.likelihood(particles, data, first))
    weigh = kernel.weigh or kernel.combine
    log_likelihood = weigh(first, data.n_data, sums.value)
    if kernel.equal_weights:
        log_start_weights, log_likelihood = jnp.full(n_particles, -jnp.log(n_particles)), 0 * log_likelihood
    log_weights, log_evidence = reweight(log_start_weights, log_likelihood)
    state = SMCState(
        particles,
        log_weights,
        sums,
        first,
        root_ancestor=jnp.arange(n_particles),
        log_evidence=log_evidence,
        iteration=jnp.asarray(0, jnp.int32),
    )
    ancestors, log_weights, _ = draw_ancestors(key_resample, kernel, log_weights)
    return descend(kernel, state, ancestors)._replace(log_weights=log_weights), particles


def step(
    key: PRNGKeyArray, state: SMCState, kernel: SMCKernel, params: SMCParams, data: ShuffledData
) -> tuple[SMCState, SMCInfo]:
    """One iteration: admit data, move, reweight, resample if ESS < J/2."""
    n_data = data.n_data
    key_move, key_resample = jax.random.split(jax.random.fold_in(key, state.iteration))

    weights = jnp.exp(state.log_weights)
    window = kernel.next_window(
        params.schedule, state.iteration, state.window, weights, state.likelihood.value
    )

    sums, n_arrived = extend_cache(
        state.likelihood,
        state.window,
        window,
        lambda part: weighable(kernel, kernel.likelihood(state.particles, data, part)),
    )
    evaluate = evaluation(kernel, window, data)
    start = evaluate(state.particles, sums)
    moved, log_kernel_ratio = kernel.move.move(
        key_move, start, evaluate, params.step_size, params.n_leapfrog_steps
    )

    moved_sums = weighable(kernel, moved.sums)
    log_prior_ratio, log_kernel_ratio = kernel.replicate(
        (jax.vmap(kernel.prior.log_ratio)(moved.particles, state.particles), log_kernel_ratio)
    )

    weigh = kernel.weigh or kernel.combine
    current = weigh(window, n_data, sums.value)
    before = current
    if kernel.weight_by_previous:
        before = weigh(state.window, n_data, state.likelihood.value)
    increment = weigh(window, n_data, moved_sums.value) - before + log_prior_ratio + log_kernel_ratio
    energy_error = jnp.abs(increment + before - current)
    if kernel.equal_weights:
        increment = 0 * increment  # not a number where it was not finite
    log_weights, log_mean = reweight(state.log_weights, increment)
    state = state._replace(
        particles=moved.particles,
        log_weights=log_weights,
        likelihood=moved_sums,
        window=window,
        log_evidence=state.log_evidence + log_mean,
        iteration=state.iteration + 1,
    )
    # The only exchange of particles between devices, so it is not done for nothing.
    ancestors, reset, resampled = draw_ancestors(key_resample, kernel, log_weights)
    resampled_state = jax.lax.cond(
        resampled, partial(descend, kernel), lambda state, _: state, state, ancestors
    )
    resampled_state = replicate_scalars(kernel, resampled_state._replace(log_weights=reset))
    info = SMCInfo(
        batch_size=window.size,
        beta=window.beta,
        ess=effective_sample_size(log_weights),
        resampled=resampled,
        unique_ancestors=n_unique(resampled_state.root_ancestor),
        log_likelihood=mean_log_likelihood(state),
        energy_error=jnp.sum(jnp.where(jnp.isfinite(energy_error), weights * energy_error, 0.0)),
        evaluations=n_arrived + kernel.move.gradients(params.n_leapfrog_steps) * window.size,
    )
    return resampled_state, info


def draw_first(
    key: PRNGKeyArray, kernel: SMCKernel, n_particles: int
) -> tuple[Particles, Float[Array, " particle"]]:
    """Draw the first particles; their log-weights are ``log q0 - log q_start - log J``."""
    uniform = jnp.full(n_particles, -jnp.log(n_particles))
    keys = jax.random.split(key, n_particles)
    if kernel.start is None:
        return jax.vmap(kernel.prior.sample)(keys), uniform
    particles = jax.vmap(kernel.start.sample)(keys)
    if kernel.start.log_weight is None:
        return particles, uniform
    return particles, uniform + jax.vmap(kernel.start.log_weight)(particles)


def evaluation(kernel: SMCKernel, window: Window, data: ShuffledData) -> Callable[..., Position]:
    """The function that evaluates particles at the target of a window, unless their sums are given."""

    def evaluate(particles: Array, sums: LikelihoodSums | None = None) -> Position:
        sums = kernel.likelihood(particles, data, window) if sums is None else sums
        gradient = target_gradient(kernel.prior, particles, sums, window, data.n_data, kernel.combine)
        return Position(particles, sums, gradient)

    return evaluate


def weighable(kernel: SMCKernel, sums: LikelihoodSums) -> LikelihoodSums:
    """Likelihood sums whose values every device knows; gradients stay with their particles."""
    return sums._replace(value=kernel.replicate(sums.value))


def draw_ancestors(
    key: PRNGKeyArray, kernel: SMCKernel, log_weights: Float[Array, " particle"], share: float = 0.5
) -> tuple[Int[Array, " particle"], Float[Array, " particle"], Bool[Array, ""]]:
    """Ancestors, and weights 1/J, when J_eff < J/2, else all as it was; and which of the two."""
    n_particles = log_weights.size
    log_weights = kernel.replicate(log_weights)
    ess = effective_sample_size(log_weights)
    needed = (ess < share * n_particles) & (ess > 0)
    ancestors = jnp.where(needed, kernel.resample(key, jnp.exp(log_weights)), jnp.arange(n_particles))
    return kernel.replicate(ancestors), jnp.where(needed, -jnp.log(n_particles), log_weights), needed


def descend(kernel: SMCKernel, state: SMCState, ancestors: Int[Array, " particle"]) -> SMCState:
    """Particles become copies of their ancestors; cached likelihoods move along."""
    return replicate_scalars(
        kernel,
        state._replace(
            particles=state.particles[ancestors],
            # Part by part: gathered together, XLA would transpose them, and back, at every iteration.
            likelihood=LikelihoodSums(
                *(jnp.stack([sums[OLD][ancestors], sums[NEW][ancestors]]) for sums in state.likelihood)
            ),
            root_ancestor=state.root_ancestor[ancestors],
        ),
    )


def replicate_scalars(kernel: SMCKernel, state: SMCState) -> SMCState:
    """Make all of a state known to every device, but particles and their gradients."""
    sharded = state.particles, state.likelihood.gradient
    state = kernel.replicate(
        state._replace(particles=None, likelihood=state.likelihood._replace(gradient=None))
    )
    return state._replace(particles=sharded[0], likelihood=state.likelihood._replace(gradient=sharded[1]))


def mean_log_likelihood(state: SMCState) -> Float[Array, ""]:
    """Weighted mean over particles of the log-likelihood per example in use."""
    weights = jnp.exp(state.log_weights)
    one = jnp.asarray(1, jnp.int32)
    per_example = scale_to_full_data(state.window, one, state.likelihood.value)
    return jnp.sum(jnp.where(weights > 0, weights * per_example, 0.0))
