r"""Adaptive data annealing: as much new likelihood as the particles can bear.

The path leads from the prior to the posterior. The first C examples join at beta = 0, which is the prior
itself. Whenever the particles have settled at a target, beta grows to the largest value that keeps the
conditional effective sample size of the change,

    J (sum_j W_j v_j)^2 / sum_j W_j v_j^2,    v_j = exp((beta' - beta) ll_new(theta_j)),

at a set share of J (Zhou, Johansen and Aston 2016). It takes a bisection on J numbers that are known: no data
are looked at. Once beta is 1, as many examples join as are in already: early targets, which are many, cost
little, and a posterior of half the data is near enough to that of all. With C = N this is likelihood
tempering.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from smcda.smc.batches import Window
from smcda.smc.schedules.base import BatchPlan, Schedule, ScheduleArgs
from smcda.smc.schedules.fixed import full_batch

N_BISECTIONS = 40
SMALLEST_STEP = 60.0
"""Minus log2 of the smallest step of beta, as a share of what is left of it."""

TYPICAL_ITERATIONS = 60
"""For the cost that a scheduler is asked for: moves at full length and on all data, whose cost LeNet-5 on 500
images with a wide prior did not exceed."""


class AdaptiveParams(NamedTuple):
    """The numbers that the scheme reads; traced."""

    n_data: Int[Array, ""]
    ess_target: Float[Array, ""]


def adaptive(args: ScheduleArgs) -> Schedule:
    """Start from C new examples at beta = 0, which is the prior itself."""
    first = Window(jnp.int32(0), jnp.int32(0), jnp.int32(args.initial_batch), jnp.float32(0))
    params = AdaptiveParams(jnp.int32(args.n_data), jnp.float32(args.ess_target))
    plan: BatchPlan = full_batch(args._replace(iterations=TYPICAL_ITERATIONS))
    return Schedule(first, join, params, plan, is_fixed=False, next_beta=raise_beta)


def join(
    params: AdaptiveParams,
    iteration: Int[Array, ""],
    window: Window,
    weights: Float[Array, " particle"],
    log_likelihoods: Float[Array, "part particle"],
) -> Window:
    """Let as many examples join as are in, at beta = 0, once beta has reached 1."""
    del iteration, weights, log_likelihoods
    joins = (window.beta >= 1) & (window.stop < params.n_data)
    doubled = jnp.minimum(window.stop + window.size, params.n_data)
    return Window(
        window.start,
        jnp.where(joins, window.stop, window.split),
        jnp.where(joins, doubled, window.stop),
        jnp.where(joins, 0.0, window.beta),
    )


def raise_beta(
    params: AdaptiveParams,
    window: Window,
    log_weights: Float[Array, " particle"],
    log_likelihood_new: Float[Array, " particle"],
) -> Float[Array, ""]:
    """The largest beta up to 1 that keeps the conditional ESS at `ess_target`.

    Particles outside the support of the new examples get no weight whatever beta is; the share is of the
    others.
    """
    alive = jnp.isfinite(log_likelihood_new) & (log_weights > -jnp.inf)
    weights = jnp.where(alive, jnp.exp(log_weights), 0.0)
    # The largest is zero, so that no exponential overflows.
    centred = log_likelihood_new - jnp.max(log_likelihood_new, where=alive, initial=-jnp.inf)
    left = 1 - window.beta

    def bears(log2_share: Array) -> Array:
        v = jnp.where(alive, jnp.exp(left * jnp.exp2(log2_share) * centred), 0.0)
        return jnp.sum(weights * v) ** 2 >= params.ess_target * jnp.sum(weights * v**2) * jnp.sum(weights)

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) / 2
        good = bears(middle)
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    bounds = (jnp.float32(-SMALLEST_STEP), jnp.float32(0))
    low, _ = jax.lax.fori_loop(0, N_BISECTIONS, halve, bounds)
    raised = jnp.where(bears(jnp.float32(0)), 1.0, window.beta + left * jnp.exp2(low))
    # Never stand still, whatever rounding does.
    return jnp.minimum(jnp.maximum(raised, jnp.nextafter(window.beta, jnp.float32(2))), 1.0)
