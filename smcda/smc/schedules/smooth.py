r"""Smooth data annealing (SDA): new examples are admitted as fast as the entropy allows.

A minibatch joins with its likelihood raised to a small power beta, which then grows so that the
entropy of the target changes at a constant rate dS per iteration. With O_new and O_old the negative
log-likelihoods of the new and old examples, to first order

    beta <- min(1, beta + dS / |Var(O_new) + Cov(O_old, O_new)|),

the moments being taken over the weighted particles. The first C examples have nothing old beside
them: there the covariance is zero and beta starts at 0, which is the prior. When beta has been 1 for
an iteration the next minibatch joins at ``beta_restart``; when no data are left beta stays at 1.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from smcda.smc.batches import Window
from smcda.smc.likelihood import NEW, OLD
from smcda.smc.schedules.base import Schedule, ScheduleArgs
from smcda.smc.schedules.fixed import linear


def smooth_data_annealing(args: ScheduleArgs) -> Schedule:
    """Start from C new examples at beta = 0, which is the prior itself."""
    # It admits at most one minibatch per iteration, and has no refinement.
    upper_bound = linear(args._replace(refine_from=1.0))
    start, stop, beta = jnp.int32(0), jnp.int32(args.initial_batch), jnp.float32(0)
    first = Window(start, start, stop, beta)
    return Schedule(first, next_window, jax.tree.map(jnp.array, args), upper_bound, is_fixed=False)


def next_window(
    params: ScheduleArgs,
    iteration: Int[Array, ""],
    window: Window,
    weights: Float[Array, " particle"],
    log_likelihoods: Float[Array, "part particle"],
) -> Window:
    """Raise beta, or let the next minibatch join once beta has reached 1; `params` are traced."""
    del iteration
    new_is_in = window.beta >= 1
    all_is_in = new_is_in & (window.stop >= params.n_data)
    joins = new_is_in & ~all_is_in

    step = params.delta_entropy / entropy_rate(weights, log_likelihoods)
    raised = jnp.minimum(window.beta + step, 1.0)
    beta = jnp.where(joins, params.beta_restart, jnp.where(all_is_in, 1.0, raised))
    split = jnp.where(joins, window.stop, window.split)
    stop = jnp.where(joins, jnp.minimum(window.stop + params.batch_size, params.n_data), window.stop)
    return Window(window.start, split, stop, beta.astype(window.beta.dtype))


def entropy_rate(
    weights: Float[Array, " particle"], log_likelihoods: Float[Array, "part particle"]
) -> Float[Array, ""]:
    """``|Var(O_new) + Cov(O_old, O_new)|`` over the weighted particles.

    Centred before multiplying, which float32 needs; particles of weight zero may hold NaN and are
    left out. A rate of zero (one particle carries all weight) makes beta jump to 1.
    """
    values = jnp.where(weights > 0, log_likelihoods, 0.0)
    centred = values - jnp.sum(weights * values, axis=1, keepdims=True)
    covariance = jnp.sum(weights * centred[NEW] * (centred[OLD] + centred[NEW]))
    return jnp.abs(covariance)
