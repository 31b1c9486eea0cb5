r"""The likelihood of a window of examples: the one callable through which the sampler sees model and data.

A `BatchLikelihood` gives, for every particle, the plain log-likelihood and its gradient summed over the old
and over the new part of a window. How it does so (which device, which code, how the work is cut) is its own
business: `xla_likelihood` below makes one from any per-example log-likelihood, ``smcda.models.native`` has
C++ ones, ``smcda.parallel.plan`` shards them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from smcda.smc.batches import ShuffledData, Window, n_slices, read_slice

OLD, NEW = 0, 1

Particles = Float[Array, "particle parameter"]
"""Flat particles, one per row."""

LogLikelihood = Callable[[Any, Any, Any], Array]
"""``(parameters, x, y) -> log-likelihood of each example`` for a slice of examples."""

Replicate = Callable[[Any], Any]
"""Makes numbers of each particle known to every device that shares the particles."""


def identity(values: Any) -> Any:
    """A single device knows them all."""
    return values


class LikelihoodSums(NamedTuple):
    """Plain log-likelihood and gradient of each particle, summed over the old and the new examples."""

    value: Float[Array, "part particle"]
    gradient: Float[Array, "part particle parameter"]


BatchLikelihood = Callable[[Array, ShuffledData, Window], LikelihoodSums]
"""``(particles, data, window) -> sums`` for flat particles."""


def xla_likelihood(
    log_likelihood: LogLikelihood, unravel: Callable[[Array], Any], micro_batch: int, particle_chunk: int
) -> BatchLikelihood:
    """Sum log-likelihoods and gradients in a loop over micro-batches, one chunk of particles at a time.

    The loop's bounds are traced, so that one compilation serves every M_k, and activations never exist for
    more than `micro_batch` examples of `particle_chunk` particles. `unravel` turns a flat particle into the
    parameters that `log_likelihood` takes.
    """

    def particle_sum(flat: Array, x: Any, y: Any, mask: Bool[Array, " slice"]) -> Array:
        per_example = log_likelihood(unravel(flat), x, y)
        return jnp.sum(jnp.where(mask, per_example, 0.0))

    def sums(particles: Particles, data: ShuffledData, window: Window) -> LikelihoodSums:
        n_old = n_slices(window.split - window.start, micro_batch)
        n_new = n_slices(window.stop - window.split, micro_batch)

        def chunk_sums(chunk: Array) -> LikelihoodSums:
            def add_slice(i: Array, sums: LikelihoodSums) -> LikelihoodSums:
                part = jnp.where(i < n_old, OLD, NEW)
                first = jnp.where(
                    i < n_old, window.start + i * micro_batch, window.split + (i - n_old) * micro_batch
                )
                end = jnp.where(i < n_old, window.split, window.stop)
                x, y, mask = read_slice(data, first, end, micro_batch)
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
        chunks = jax.lax.map(chunk_sums, padded.reshape(-1, particle_chunk, padded.shape[1]))
        return LikelihoodSums(*(jnp.concatenate(list(part), axis=1)[:, :n_particles] for part in chunks))

    return sums


def _add(parts: Float[Array, "part *rest"], part: Int[Array, ""], term: Float[Array, "*rest"]) -> Array:
    # In place; `parts.at[part].add(term)` would be a scatter, which CPUs do one number at a time.
    return jax.lax.dynamic_update_index_in_dim(parts, parts[part] + term, part, axis=0)
