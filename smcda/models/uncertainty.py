r"""How unsure a mixture of classifiers is of an example, and how well that tells foreign examples apart.

For particles with weights w_j and class probabilities p_j, whose mixture is p,

    entropy             H(p) = -sum_c p(c) log p(c)                       unsure for whatever reason
    mutual information  H(p) - sum_j w_j H(p_j) = sum_j w_j KL(p_j || p)  unsure because particles disagree

The AUROC of such a number is the probability that it is larger for a foreign example than for one of the kind
that was learnt, ties counting half: 1 tells them apart, 0.5 is a guess.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

NO_INFORMATION = 1e-6
"""Nats. What float32 leaves of the mutual information of particles that agree: noise, which is no order."""


class Uncertainty(NamedTuple):
    """Of each example, in nats."""

    entropy: Float[np.ndarray | Array, " example"]
    mutual_information: Float[np.ndarray | Array, " example"]


def class_uncertainty(
    logits: Float[Array, "particle example label"], log_weights: Float[Array, " particle"]
) -> Uncertainty:
    """Entropy and mutual information of the mixture of the particles that have any weight."""
    alive = (log_weights > -jnp.inf)[:, None, None]
    # A particle of weight zero may hold NaN, which a weight alone would not keep out of the sum.
    log_p = jax.nn.log_softmax(jnp.where(alive, logits, 0.0))
    weights = jnp.where(alive, jnp.exp(log_weights[:, None, None]), 0.0)
    mixed = jax.nn.logsumexp(log_p, axis=0, b=weights / jnp.sum(weights))
    entropy = -jnp.sum(jnp.exp(mixed) * mixed, axis=-1)
    # As a sum of divergences: a difference of entropies would lose its digits where particles agree.
    divergence = jnp.sum(jnp.exp(log_p) * (log_p - mixed), axis=-1)
    information = jnp.sum(weights[..., 0] * divergence, axis=0) / jnp.sum(weights)
    return Uncertainty(entropy, jnp.where(information > NO_INFORMATION, information, 0.0))


def auroc(known: Float[np.ndarray, " example"], foreign: Float[np.ndarray, " other"]) -> float:
    """Probability that a foreign example's number is larger than a known one's, ties counting half."""
    ordered = np.sort(known)
    below, up_to = (np.searchsorted(ordered, foreign, side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(known)))
