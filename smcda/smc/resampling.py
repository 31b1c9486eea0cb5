"""Weights, effective sample size, and four ways to draw ancestors.

Each resampler draws J ancestors so that particle j has on average ``J * weight_j`` offspring. They
differ in the noise around that average: multinomial (the paper's) is the noisiest; stratified and
systematic draw one point per stratum of the cumulated weights; residual keeps ``floor(J weight_j)``
copies for certain and draws the rest.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Resampler = Callable[[PRNGKeyArray, Array], Array]


def reweight(
    log_weights: Float[Array, " particle"], increment: Float[Array, " particle"]
) -> tuple[Float[Array, " particle"], Float[Array, ""]]:
    """Normalised new log-weights, and the log of the increments' weighted mean.

    An increment that is not finite marks a particle that has left the target's support or the range
    of float32: its weight becomes zero and stays zero. If that leaves nobody, all log-weights and the
    mean are -inf, which the caller must notice.
    """
    raw = log_weights + increment
    raw = jnp.where(jnp.isfinite(raw), raw, -jnp.inf)
    total = jax.nn.logsumexp(raw)
    return jnp.where(jnp.isfinite(total), raw - total, -jnp.inf), total


def effective_sample_size(log_weights: Float[Array, " particle"]) -> Float[Array, ""]:
    """``J_eff = 1 / sum w^2`` of normalised weights, and 0 where all weights are zero."""
    return jnp.where(jnp.any(log_weights > -jnp.inf), 1 / jnp.sum(jnp.exp(2 * log_weights)), 0.0)


def multinomial(key: PRNGKeyArray, weights: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """J independent draws."""
    return _look_up(weights, jax.random.uniform(key, weights.shape))


def stratified(key: PRNGKeyArray, weights: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """One draw in each of J equal strata."""
    n = weights.size
    return _look_up(weights, (jnp.arange(n) + jax.random.uniform(key, (n,))) / n)


def systematic(key: PRNGKeyArray, weights: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """One draw, repeated in each of J equal strata."""
    n = weights.size
    return _look_up(weights, (jnp.arange(n) + jax.random.uniform(key)) / n)


def residual(key: PRNGKeyArray, weights: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """``floor(J w)`` copies for certain, multinomial draws for the rest."""
    n = weights.size
    certain = jnp.floor(n * weights)
    rest = n * weights - certain
    copies = jnp.cumsum(certain.astype(jnp.int32))
    kept = jnp.searchsorted(copies, jnp.arange(n), side="right")
    drawn = multinomial(key, rest / jnp.maximum(jnp.sum(rest), jnp.finfo(rest.dtype).tiny))
    return jnp.where(jnp.arange(n) < copies[-1], kept, drawn)


RESAMPLERS: dict[str, Resampler] = {
    "multinomial": multinomial,
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
}


def _look_up(
    weights: Float[Array, " particle"], points: Float[Array, " particle"]
) -> Int[Array, " particle"]:
    """Find the particle whose stretch of the cumulated weights each point in [0, 1) falls into.

    Scaling the points by the total keeps rounding of the last cumulated weight from mattering, and a
    point below a cumulated weight never selects a particle of weight zero.
    """
    cumulated = jnp.cumsum(weights)
    found = jnp.searchsorted(cumulated, points * cumulated[-1], side="right")
    last_alive = weights.size - 1 - jnp.argmax(weights[::-1] > 0)
    return jnp.minimum(found, last_alive)


def n_unique(labels: Int[Array, " particle"]) -> Int[Array, ""]:
    """How many different labels there are, each in ``0 .. J-1``."""
    present: Bool[Array, " particle"] = jnp.zeros(labels.shape, bool).at[labels].set(True)
    return jnp.sum(present)
