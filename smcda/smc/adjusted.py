r"""The sampler with Metropolis-adjusted moves: reweight, resample, move.

A move that leaves pi_k invariant does not change the weights. They are those of the change of target alone,

    log w_k = log w_{k-1} + log pi_k(theta_{k-1}) - log pi_{k-1}(theta_{k-1}),

known before the move and independent of it (Chopin 2002; Del Moral, Doucet and Jasra 2006, sec. 3.3.2). So
ancestors are drawn first, and moving again and again at one target only makes the particles better. The
product of the mean weights estimates the evidence.

An iteration is one move of all particles. With a fixed scheme each has its own target. With a scheme that
chooses (`adaptive`) a target stays until the particles have settled, ancestors are drawn at every change, and
the run is done when they have settled at the posterior of all data.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from smcda.smc import adaptation
from smcda.smc.batches import ShuffledData, Window
from smcda.smc.kernels import metropolis
from smcda.smc.likelihood import NEW, Particles
from smcda.smc.resampling import effective_sample_size, n_unique, reweight
from smcda.smc.sampler import (
    MoveInfo,
    SMCInfo,
    SMCKernel,
    SMCParams,
    SMCState,
    descend,
    draw_ancestors,
    draw_first,
    evaluation,
    mean_log_likelihood,
    replicate_scalars,
    weighable,
)
from smcda.smc.target import extend_cache


def init(
    key: PRNGKeyArray, kernel: SMCKernel, first: Window, data: ShuffledData, n_particles: int
) -> tuple[SMCState, Particles]:
    """Draw from the start, weight by the first target, resample if ESS < J/2; also give the draws."""
    key_start, key_resample = jax.random.split(key)
    particles, log_start_weights = draw_first(key_start, kernel, n_particles)
    sums = weighable(kernel, kernel.likelihood(particles, data, first))
    log_likelihood = kernel.combine(first, data.n_data, sums.value)
    log_weights, log_evidence = reweight(log_start_weights, log_likelihood)
    scores = jax.vmap(kernel.prior.gradient)(particles)
    state = SMCState(
        particles,
        log_weights,
        sums,
        first,
        root_ancestor=jnp.arange(n_particles),
        log_evidence=log_evidence,
        iteration=jnp.asarray(0, jnp.int32),
        adaptation=adaptation.start(particles, scores, log_likelihood, kernel.replicate),
    )
    ancestors, log_weights, _ = draw_ancestors(key_resample, kernel, log_weights)
    return descend(kernel, state, ancestors)._replace(log_weights=log_weights), particles


def resume_from(
    key: PRNGKeyArray,
    kernel: SMCKernel,
    window: Window,
    data: ShuffledData,
    particles: Particles,
    log_weights: Float[Array, " particle"],
) -> tuple[SMCState, Particles]:
    """Take particles weighted for the target of a window as they are; also give them back.

    Root ancestors and evidence count from here.
    """
    n_particles = len(particles)
    sums = weighable(kernel, kernel.likelihood(particles, data, window))
    state = SMCState(
        particles,
        log_weights,
        sums,
        window,
        root_ancestor=jnp.arange(n_particles),
        log_evidence=jnp.asarray(0, particles.dtype),
        iteration=jnp.asarray(0, jnp.int32),
    )
    ancestors, log_weights, _ = draw_ancestors(key, kernel, log_weights, share=1.0)
    state = descend(kernel, state, ancestors)._replace(log_weights=log_weights)
    scores = evaluation(kernel, window, data)(state.particles, state.likelihood).gradient
    log_likelihood = kernel.combine(window, data.n_data, state.likelihood.value)
    learnt = adaptation.start(state.particles, scores, log_likelihood, kernel.replicate)
    return state._replace(adaptation=learnt), particles


def step(
    key: PRNGKeyArray, state: SMCState, kernel: SMCKernel, params: SMCParams, data: ShuffledData
) -> tuple[SMCState, SMCInfo]:
    """One iteration: change the target if the particles have settled, then move them all once."""
    key_resample, key_steps, key_move, key_accept = jax.random.split(
        jax.random.fold_in(key, state.iteration), 4
    )
    state, ess, resampled, n_arrived = _change_target(key_resample, state, kernel, params, data)
    adapted, window = state.adaptation, state.window

    step_size = jnp.exp(adapted.log_step_size)
    n_steps = adaptation.n_leapfrog_steps(key_steps, step_size, params.n_leapfrog_steps)
    evaluate = evaluation(kernel, window, data)
    before = evaluate(state.particles, state.likelihood)
    proposed, log_kernel_ratio = kernel.move.move(
        key_move, before, evaluate, step_size, n_steps, adapted.metric
    )
    proposed = proposed._replace(sums=weighable(kernel, proposed.sums))
    log_prior_ratio, log_kernel_ratio = kernel.replicate(
        (jax.vmap(kernel.prior.log_ratio)(proposed.particles, before.particles), log_kernel_ratio)
    )
    log_ratio = (
        kernel.combine(window, data.n_data, proposed.sums.value - before.sums.value)
        + log_prior_ratio
        + log_kernel_ratio
    )
    moved, probability = metropolis(key_accept, before, proposed, log_ratio, kernel.replicate)

    weights = jnp.exp(state.log_weights)
    acceptance = jnp.sum(weights * probability)
    log_likelihood = kernel.combine(window, data.n_data, moved.sums.value)
    is_last = (window.stop >= data.n_data) & (window.beta >= 1)
    state = state._replace(
        particles=moved.particles,
        likelihood=moved.sums,
        iteration=state.iteration + 1,
        adaptation=adaptation.after_move(
            adapted,
            adaptation.statistics(moved.particles, log_likelihood, adapted.metric, kernel.replicate),
            acceptance,
            kernel.move.acceptance,
            is_last & (kernel.next_beta is not None),
            params.max_moves,
            params.final_moves,
        ),
    )
    state = replicate_scalars(kernel, state)
    log_likelihood = jnp.where(weights > 0, log_likelihood, 0.0)
    centred = log_likelihood - jnp.sum(weights * log_likelihood)
    info = SMCInfo(
        batch_size=window.size,
        beta=window.beta,
        ess=ess,
        resampled=resampled,
        unique_ancestors=n_unique(state.root_ancestor),
        log_likelihood=mean_log_likelihood(state),
        energy_error=jnp.sum(jnp.where(jnp.isfinite(log_ratio), weights * jnp.abs(log_ratio), 0.0)),
        evaluations=n_arrived + kernel.move.gradients(n_steps) * window.size,
        moves=MoveInfo(
            acceptance,
            step_size,
            n_steps,
            state.adaptation.n_moves,
            state.adaptation.correlation,
            jnp.sqrt(jnp.sum(weights * centred**2)),
        ),
    )
    return state, info


def _change_target(
    key: PRNGKeyArray, state: SMCState, kernel: SMCKernel, params: SMCParams, data: ShuffledData
) -> tuple[SMCState, Array, Bool[Array, ""], Array]:
    """Go to the next target where one is due: admit data, reweight, learn the metric, resample.

    Also gives the ESS before resampling, whether ancestors were drawn, and how many examples were evaluated.
    """
    n_data = data.n_data
    is_due = state.adaptation.is_settled | (kernel.next_beta is None)
    window = kernel.next_window(
        params.schedule, state.iteration, state.window, jnp.exp(state.log_weights), state.likelihood.value
    )
    window = jax.tree.map(lambda new, old: jnp.where(is_due, new, old), window, state.window)
    sums, n_arrived = extend_cache(
        state.likelihood,
        state.window,
        window,
        lambda part: weighable(kernel, kernel.likelihood(state.particles, data, part)),
    )

    def change(state: SMCState) -> tuple[SMCState, Array, Array]:
        after = window
        if kernel.next_beta is not None:
            beta = kernel.next_beta(params.schedule, window, state.log_weights, sums.value[NEW])
            after = window._replace(beta=beta)
        increment = kernel.combine(after, n_data, sums.value) - kernel.combine(
            state.window, n_data, state.likelihood.value
        )
        log_weights, log_mean = reweight(state.log_weights, increment)
        log_weights = kernel.replicate(log_weights)
        position = evaluation(kernel, after, data)(state.particles, sums)
        scale = adaptation.coordinate_scale(state.adaptation.metric)
        metric = adaptation.fisher_metric(state.particles, position.gradient, log_weights, scale)
        state = state._replace(
            log_weights=log_weights,
            likelihood=sums,
            window=after,
            log_evidence=state.log_evidence + log_mean,
        )
        ess = effective_sample_size(log_weights)
        share = 0.5 if kernel.next_beta is None else 1.0
        ancestors, log_weights, resampled = draw_ancestors(key, kernel, log_weights, share)
        # Also where all stay as they are: if particles travelled inside a second condition, devices could
        # begin that exchange and the sums for the metric, which do not depend on each other, in two orders.
        state = descend(kernel, state, ancestors)._replace(log_weights=log_weights)
        log_likelihood = kernel.combine(after, n_data, state.likelihood.value)
        learnt = state.adaptation._replace(
            metric=metric,
            reference=adaptation.statistics(state.particles, log_likelihood, metric, kernel.replicate),
            stands=jnp.zeros_like(state.adaptation.stands),
            n_moves=jnp.asarray(0, jnp.int32),
        )
        return state._replace(adaptation=learnt), ess, resampled

    def keep(state: SMCState) -> tuple[SMCState, Array, Array]:
        return state, effective_sample_size(state.log_weights), jnp.asarray(False)

    state, ess, resampled = jax.lax.cond(is_due, change, keep, state)
    return replicate_scalars(kernel, state), ess, resampled, n_arrived
