r"""The sampler: sequential Monte Carlo whose target takes in more data as it goes.

Particles are drawn from the prior and weighted by ``w_0 = pi_0 / q0``. Each iteration k then admits data,
moves every particle by leapfrog from a fresh momentum P without accept-reject, reweights,

    log w_k = log w_{k-1} + log pi_k(theta_k) - log pi_*(theta_{k-1}) + log N(-P_k) - log N(P_{k-1}),

and resamples when J_eff < J/2 (Del Moral, Doucet, Jasra 2006, sec. 3.1; Millard et al. 2026, arXiv
2601.21983). With ``weight_target: previous``, pi_* is pi_{k-1}: exact for a target that moves, and the
product of mean weights estimates the evidence. With ``current``, pi_* is pi_k: the equation as the paper
prints it, which treats the scaled batch as an estimate of one fixed target and is exact only where the
target stands still (`full_batch`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from smcda.smc.batches import ShuffledData, Window
from smcda.smc.kernels import Kernel, Position
from smcda.smc.likelihood import BatchLikelihood, LikelihoodSums, Particles
from smcda.smc.resampling import Resampler, effective_sample_size, n_unique, reweight
from smcda.smc.schedules.base import NextBeta, NextWindow
from smcda.smc.target import Combine, FlatPrior, extend_cache, scale_to_full_data, target_gradient


class SMCKernel(NamedTuple):
    """The functions that make up one run's sampler; static, so they shape the compiled program.

    `combine` makes a target of likelihood sums. `weight_by_previous` corrects the weights for the change of
    the target: ``weight_target: previous``. `next_beta` is that of `Schedule`.
    """

    likelihood: BatchLikelihood
    prior: FlatPrior
    next_window: NextWindow
    move: Kernel
    resample: Resampler
    combine: Combine
    weight_by_previous: bool
    next_beta: NextBeta | None = None


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
    """Draw from the prior, weight by the first target, resample if ESS < J/2; also give the draws."""
    key_prior, key_resample = jax.random.split(key)
    particles = jax.vmap(kernel.prior.sample)(jax.random.split(key_prior, n_particles))
    sums = kernel.likelihood(particles, data, first)
    uniform = jnp.full(n_particles, -jnp.log(n_particles))
    log_weights, log_evidence = reweight(uniform, kernel.combine(first, data.n_data, sums.value))
    state = SMCState(
        particles,
        log_weights,
        sums,
        first,
        root_ancestor=jnp.arange(n_particles),
        log_evidence=log_evidence,
        iteration=jnp.asarray(0, jnp.int32),
    )
    return resample_if_needed(key_resample, state, kernel.resample)[0], particles


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
        state.likelihood, state.window, window, lambda part: kernel.likelihood(state.particles, data, part)
    )
    evaluate = evaluation(kernel, window, data)
    start = evaluate(state.particles, sums)
    moved, log_kernel_ratio = kernel.move.move(
        key_move, start, evaluate, params.step_size, params.n_leapfrog_steps
    )

    current = kernel.combine(window, n_data, sums.value)
    before = current
    if kernel.weight_by_previous:
        before = kernel.combine(state.window, n_data, state.likelihood.value)
    increment = (
        kernel.combine(window, n_data, moved.sums.value)
        - before
        + jax.vmap(kernel.prior.log_ratio)(moved.particles, state.particles)
        + log_kernel_ratio
    )
    energy_error = jnp.abs(increment + before - current)
    log_weights, log_mean = reweight(state.log_weights, increment)
    state = state._replace(
        particles=moved.particles,
        log_weights=log_weights,
        likelihood=moved.sums,
        window=window,
        log_evidence=state.log_evidence + log_mean,
        iteration=state.iteration + 1,
    )
    resampled_state, resampled = resample_if_needed(key_resample, state, kernel.resample)
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


def evaluation(kernel: SMCKernel, window: Window, data: ShuffledData) -> Callable[..., Position]:
    """The function that evaluates particles at the target of a window, unless their sums are given."""

    def evaluate(particles: Array, sums: LikelihoodSums | None = None) -> Position:
        sums = kernel.likelihood(particles, data, window) if sums is None else sums
        gradient = target_gradient(kernel.prior, particles, sums, window, data.n_data, kernel.combine)
        return Position(particles, sums, gradient)

    return evaluate


def resample_if_needed(
    key: PRNGKeyArray, state: SMCState, resample: Resampler, share: float = 0.5
) -> tuple[SMCState, Bool[Array, ""]]:
    """Draw ancestors and reset the weights to 1/J when J_eff < J/2; cached likelihoods move along."""
    n_particles = state.log_weights.size
    ess = effective_sample_size(state.log_weights)
    needed = (ess < share * n_particles) & (ess > 0)

    def draw(state: SMCState) -> SMCState:
        ancestors = resample(key, jnp.exp(state.log_weights))
        return state._replace(
            particles=state.particles[ancestors],
            likelihood=LikelihoodSums(*(part[:, ancestors] for part in state.likelihood)),
            root_ancestor=state.root_ancestor[ancestors],
            log_weights=jnp.full_like(state.log_weights, -jnp.log(n_particles)),
        )

    return jax.lax.cond(needed, draw, lambda state: state, state), needed


def mean_log_likelihood(state: SMCState) -> Float[Array, ""]:
    """Weighted mean over particles of the log-likelihood per example in use."""
    weights = jnp.exp(state.log_weights)
    one = jnp.asarray(1, jnp.int32)
    per_example = scale_to_full_data(state.window, one, state.likelihood.value)
    return jnp.sum(jnp.where(weights > 0, weights * per_example, 0.0))
