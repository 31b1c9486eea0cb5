"""Parameters as one vector: the sampler moves flat particles, the model takes any pytree."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from smcda.smc.target import FlatPrior

if TYPE_CHECKING:
    from smcda.models.priors import Prior

Parameters = Any
"""Any pytree of arrays."""

Shapes = Any
"""Parameters of which only the shapes count: arrays, or `jax.ShapeDtypeStruct`."""


class Flattened(NamedTuple):
    """A prior on flat vectors, and the way from a vector back to the parameters.

    `unravel` gives what the model takes, `unravel_sampled` what the prior draws: two things only where the
    prior has a `transform` from one to the other.
    """

    prior: FlatPrior
    unravel: Callable[[Array], Parameters]
    n_parameters: int
    unravel_sampled: Callable[[Array], Parameters]
    transform: Callable[[Parameters], Parameters] | None = None


def flattened(prior: "Prior") -> Flattened:
    """Flatten a prior; what it draws tells the shapes."""
    n_parameters, unravel = unravelling(sampled_shapes(prior))

    def log_ratio(a: Float[Array, " parameter"], b: Float[Array, " parameter"]) -> Float[Array, ""]:
        return prior.log_ratio(unravel(a), unravel(b))

    def gradient(flat: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        # Differentiated as a pytree: through `unravel` each leaf's gradient would be padded and added.
        parameters = unravel(flat)
        return ravel(jax.grad(lambda p: prior.log_ratio(p, jax.lax.stop_gradient(p)))(parameters))

    flat_prior = prior.on_vectors or FlatPrior(lambda key: ravel(prior.sample(key)), log_ratio, gradient)
    transform = prior.transform
    if transform is None:
        return Flattened(flat_prior, unravel, n_parameters, unravel)
    return Flattened(flat_prior, lambda flat: transform(unravel(flat)), n_parameters, unravel, transform)


def unravelling(shapes: Shapes) -> tuple[int, Callable[[Array], Parameters]]:
    """Number of parameters in a pytree, and the way from a flat vector back to the pytree.

    Does what ``ravel_pytree`` does, but from shapes alone and without running anything, which would
    compile a dozen small programs at the start of every run.
    """
    leaves, structure = jax.tree.flatten(shapes)
    ends = np.cumsum([math.prod(leaf.shape) for leaf in leaves]).tolist()

    def unravel(flat: Float[Array, " parameter"]) -> Parameters:
        parts = zip([0, *ends[:-1]], ends, leaves, strict=True)
        return jax.tree.unflatten(structure, [flat[a:b].reshape(leaf.shape) for a, b, leaf in parts])

    return ends[-1], unravel


def ravel(parameters: Parameters) -> Float[Array, " parameter"]:
    """All parameters as one vector, in the order that `unravel` expects."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(parameters)])


def described(shapes: Shapes) -> str:
    """Types and shapes of all leaves, for a message."""
    leaves = [f"{leaf.dtype} {leaf.shape}" for leaf in jax.tree.leaves(shapes) if hasattr(leaf, "dtype")]
    return " and ".join(leaves) or type(shapes).__name__


def sampled_shapes(prior: "Prior") -> Shapes:
    """Shapes of what a prior draws."""
    return jax.eval_shape(lambda: prior.sample(jax.random.key(0)))


def parameter_shapes(prior: "Prior") -> Shapes:
    """Shapes of what a model with this prior takes."""
    sampled = sampled_shapes(prior)
    return sampled if prior.transform is None else jax.eval_shape(prior.transform, sampled)
