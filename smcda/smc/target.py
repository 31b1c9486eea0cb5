r"""The target that the particles are moved and weighted by.

At iteration k, with ``old`` the examples fully in and ``new`` those being annealed in,

    log pi_k(theta) = (N / M_k) [ ll_old(theta) + beta_k ll_new(theta) ] + log q0(theta) + const

for every scheme (beta is 1 for the fixed ones). What is expensive is the two sums over examples and
their gradients. They are computed by one loop over slices of examples, whose bounds are traced, so
that one compilation serves every M_k and activations never exist for more than one slice; and they
are kept (`LikelihoodSums`) with the particles they belong to, so that nothing known is computed again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from smcda.models.priors import Parameters, Prior, flatten, flattening
from smcda.parallel.sharding import Placement
from smcda.smc.batches import Batches, Window, read_slice, slices

LogLikelihood = Callable[[Parameters, Any, Any], Array]
"""``(parameters, x, y) -> log-likelihood of each example`` for a slice of examples."""

OLD, NEW = 0, 1


class LikelihoodSums(NamedTuple):
    """Plain log-likelihood and gradient of each particle, summed over the old and the new examples."""

    value: Float[Array, "part particle"]
    gradient: Float[Array, "part particle parameter"]


WindowSums = Callable[[Array, Batches, Window], LikelihoodSums]
"""``(particles, batches, window) -> sums``: all of `likelihood_sums`, where a model has a faster way."""


class Target(NamedTuple):
    """What is sampled, on flat parameter vectors; hashable, so that it can be a static argument."""

    log_likelihood: LogLikelihood
    prior: Prior
    unravel: Callable[[Array], Parameters]
    n_parameters: int
    window_sums: WindowSums | None = None


def make_target(log_likelihood: LogLikelihood, prior: Prior, window_sums: WindowSums | None = None) -> Target:
    """Learn the parameters' shapes from what the prior draws."""
    n_parameters, unravel = flattening(jax.eval_shape(lambda: prior.sample(jax.random.key(0))))
    return Target(log_likelihood, prior, unravel, n_parameters, window_sums)


def draw_prior(key: PRNGKeyArray, target: Target, n_particles: int) -> Float[Array, "particle parameter"]:
    """Draw the first particles, as flat vectors."""
    keys = jax.random.split(key, n_particles)
    return jax.vmap(lambda k: flatten(target.prior.sample(k)))(keys)


def likelihood_sums(
    target: Target,
    particles: Float[Array, "particle parameter"],
    batches: Batches,
    window: Window,
    micro_batch: int,
    particle_chunk: int,
    placement: Placement | None = None,
) -> LikelihoodSums:
    """Sum log-likelihoods and gradients over the window, chunk of particles by chunk of particles.

    A model's own way of summing (`window_sums`) has no use for micro-batches and chunks. With a
    `placement`, each device does this for the particles that it holds.
    """
    if placement is not None:
        share: Any = placement.along(1).spec
        everywhere = placement.everywhere.spec
        return jax.shard_map(
            partial(likelihood_sums, target, micro_batch=micro_batch, particle_chunk=particle_chunk),
            mesh=placement.mesh,
            in_specs=(placement.along(0).spec, everywhere, everywhere),
            out_specs=LikelihoodSums(share, share),
            check_vma=False,
        )(particles, batches, window)
    if target.window_sums is not None:
        return target.window_sums(particles, batches, window)
    n_old = slices(window.split - window.start, micro_batch)
    n_new = slices(window.stop - window.split, micro_batch)

    def particle_sum(flat: Array, x: Array, y: Array, mask: Bool[Array, " slice"]) -> Array:
        per_example = target.log_likelihood(target.unravel(flat), x, y)
        return jnp.sum(jnp.where(mask, per_example, 0.0))

    def chunk_sums(chunk: Array) -> LikelihoodSums:
        def add_slice(i: Array, sums: LikelihoodSums) -> LikelihoodSums:
            part = jnp.where(i < n_old, OLD, NEW)
            first = jnp.where(
                i < n_old, window.start + i * micro_batch, window.split + (i - n_old) * micro_batch
            )
            end = jnp.where(i < n_old, window.split, window.stop)
            x, y, mask = read_slice(batches, first, end, micro_batch)
            value, gradient = jax.vmap(jax.value_and_grad(particle_sum), (0, None, None, None))(
                chunk, x, y, mask
            )
            return LikelihoodSums(_add(sums.value, part, value), _add(sums.gradient, part, gradient))

        zero = LikelihoodSums(jnp.zeros((2, len(chunk))), jnp.zeros((2, *chunk.shape)))
        return jax.lax.fori_loop(0, n_old + n_new, add_slice, zero)

    n_particles = len(particles)
    if particle_chunk >= n_particles:
        return chunk_sums(particles)
    padded = jnp.pad(particles, ((0, -n_particles % particle_chunk), (0, 0)), mode="edge")
    sums = jax.lax.map(chunk_sums, padded.reshape(-1, particle_chunk, padded.shape[1]))
    return LikelihoodSums(*(jnp.concatenate(list(part), axis=1)[:, :n_particles] for part in sums))


def _add(parts: Float[Array, "part *rest"], part: Int[Array, ""], term: Float[Array, "*rest"]) -> Array:
    # In place; `parts.at[part].add(term)` would be a scatter, which CPUs do one number at a time.
    return jax.lax.dynamic_update_index_in_dim(parts, parts[part] + term, part, axis=0)


def bring_in(
    sums: LikelihoodSums,
    before: Window,
    after: Window,
    evaluate: Callable[[Window], LikelihoodSums],
) -> tuple[LikelihoodSums, Int[Array, ""]]:
    """Carry the sums of unmoved particles over to the next window; also count the images this took.

    Data that stay in use are not looked at again: on append the former old and new parts become the
    old part, and only ``[split, stop)`` of the new window is evaluated.
    """
    unchanged = after.same_data(before)
    starts_over = after.start == after.split
    first = jnp.where(unchanged, after.stop, after.split)
    arriving = evaluate(Window(first, first, after.stop, after.beta))

    def choose(known: Array, new: Array) -> Array:
        kept = jnp.where(starts_over, 0.0, known[OLD] + known[NEW])
        return jnp.where(unchanged, known, jnp.stack([kept, new[NEW]]))

    return jax.tree.map(choose, sums, arriving), after.stop - first


def scaled(
    window: Window, n_data: Int[Array, ""], parts: Float[Array, "part *rest"]
) -> Float[Array, "*rest"]:
    """Weigh old and new sums into the estimate for all N examples: ``(N / M) (old + beta new)``."""
    return n_data / jnp.maximum(window.size, 1) * (parts[OLD] + window.beta * parts[NEW])


def target_gradient(
    target: Target,
    particles: Float[Array, "particle parameter"],
    sums: LikelihoodSums,
    window: Window,
    n_data: Int[Array, ""],
) -> Float[Array, "particle parameter"]:
    """Gradient of log pi_k at each particle, from sums already at hand."""

    def prior_gradient(flat: Array) -> Array:
        parameters = target.unravel(flat)
        gradient = jax.grad(lambda p: target.prior.log_ratio(p, jax.lax.stop_gradient(p)))(parameters)
        return flatten(gradient)

    return scaled(window, n_data, sums.gradient) + jax.vmap(prior_gradient)(particles)


def prior_log_ratio(
    target: Target, a: Float[Array, "particle parameter"], b: Float[Array, "particle parameter"]
) -> Float[Array, " particle"]:
    """``log q0(a) - log q0(b)`` of each particle."""
    return jax.vmap(lambda a, b: target.prior.log_ratio(target.unravel(a), target.unravel(b)))(a, b)
