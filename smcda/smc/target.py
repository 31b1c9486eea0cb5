r"""The target that the particles are moved and weighted by.

At iteration k, with ``old`` the examples fully in and ``new`` those being annealed in,

    scaled (published):  log pi_k(theta) = (N / M_k) [ ll_old(theta) + beta_k ll_new(theta) ] + log q0(theta)
    plain:               log pi_k(theta) =             ll_old(theta) + beta_k ll_new(theta)   + log q0(theta)

up to a constant, for every scheme (beta is 1 for the fixed ones). Scaled, a minibatch stands for all data,
and the first target is as peaked as the last; plain, the targets lead from the prior to the posterior.

The two sums over examples and their gradients are what is expensive. They are cached (`LikelihoodSums`) with
the particles they belong to: when data arrive, only those are evaluated.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from smcda.smc.batches import Window
from smcda.smc.likelihood import NEW, OLD, LikelihoodSums, Particles


class FlatPrior(NamedTuple):
    """The prior q0 of one particle, on flat parameter vectors.

    ``sample(key)`` draws one, ``log_ratio(a, b)`` is ``log q0(a) - log q0(b)`` and ``gradient(a)`` that of
    ``log q0`` at a. The log-density itself is needed only to weight particles of another start.
    """

    sample: Callable[[PRNGKeyArray], Float[Array, " parameter"]]
    log_ratio: Callable[[Array, Array], Float[Array, ""]]
    gradient: Callable[[Array], Float[Array, " parameter"]]


class FlatStart(NamedTuple):
    """Where the first particles come from, on flat parameter vectors.

    ``log_weight(a)`` is ``log q0(a) - log q_start(a)``, or None where the start has no density: then the
    first weights can't correct for it.
    """

    sample: Callable[[PRNGKeyArray], Float[Array, " parameter"]]
    log_weight: Callable[[Array], Float[Array, ""]] | None = None


def extend_cache(
    sums: LikelihoodSums, before: Window, after: Window, evaluate: Callable[[Window], LikelihoodSums]
) -> tuple[LikelihoodSums, Int[Array, ""]]:
    """Carry the sums of unmoved particles over to the next window; also count the examples evaluated for it.

    Data that stay in use are not looked at again: on append the former old and new parts become the
    old part, and only ``[split, stop)`` of the new window is evaluated.
    """
    unchanged = (after.start == before.start) & (after.split == before.split) & (after.stop == before.stop)
    starts_over = after.start == after.split
    first = jnp.where(unchanged, after.stop, after.split)
    arriving = evaluate(Window(first, first, after.stop, after.beta))

    def choose(known: Array, new: Array) -> Array:
        old = jnp.where(starts_over, 0.0, known[OLD] + known[NEW])
        return jnp.where(unchanged, known, jnp.stack([old, new[NEW]]))

    return jax.tree.map(choose, sums, arriving), after.stop - first


def scale_to_full_data(
    window: Window, n_data: Int[Array, ""], parts: Float[Array, "part *rest"]
) -> Float[Array, "*rest"]:
    """Combine old and new sums into the estimate for all N examples: ``(N / M) (old + beta new)``."""
    return n_data / jnp.maximum(window.size, 1) * (parts[OLD] + window.beta * parts[NEW])


def plain_sum(
    window: Window, n_data: Int[Array, ""], parts: Float[Array, "part *rest"]
) -> Float[Array, "*rest"]:
    """Combine old and new sums as they are: ``old + beta new``; at beta = 0 new ones may be infinite."""
    del n_data
    return parts[OLD] + jnp.where(window.beta > 0, window.beta * parts[NEW], 0.0)


Combine = Callable[[Window, Array, Array], Array]
"""``(window, N, sums over the old and the new part) -> what of them is in the target``."""

TARGETS: dict[str, Combine] = {"scaled": scale_to_full_data, "plain": plain_sum}


def target_gradient(
    prior: FlatPrior,
    particles: Particles,
    sums: LikelihoodSums,
    window: Window,
    n_data: Int[Array, ""],
    combine: Combine,
) -> Float[Array, "particle parameter"]:
    """Gradient of log pi_k at each particle, from sums already at hand."""
    return combine(window, n_data, sums.gradient) + jax.vmap(prior.gradient)(particles)
