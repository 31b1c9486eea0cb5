"""Priors over parameters: a way to draw from one, and the log-density ratio of two points.

The sampler never needs a prior's log-density itself, only its gradient and its *ratio* between the
two ends of a move. For a Gaussian over tens of thousands of weights the two log-densities are large
and nearly equal, so the ratio is summed as ``(a - b)(a + b)`` per coordinate rather than subtracted.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from smcda.errors import BadInput
from smcda.smc.target import FlatPrior

Parameters = PyTree


class Prior(NamedTuple):
    """``sample(key)`` draws one pytree; ``log_ratio(a, b)`` is ``log q0(a) - log q0(b)``."""

    sample: Callable[[PRNGKeyArray], Parameters]
    log_ratio: Callable[[Parameters, Parameters], Float[Array, ""]]


def from_density(
    sample: Callable[[PRNGKeyArray], Parameters], log_density: Callable[[Parameters], Any]
) -> Prior:
    """Build any prior from a sampler and a log-density, which need not be normalised."""
    return Prior(sample, lambda a, b: jnp.asarray(log_density(a) - log_density(b)))


def gaussian(mean: Parameters, scale: Parameters) -> Prior:
    """Independent Gaussians: `mean` is a pytree of arrays, `scale` one of such arrays or of scalars."""
    mean, scale = (jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), tree) for tree in (mean, scale))
    if not all(np.all((leaf > 0) & np.isfinite(leaf)) for leaf in jax.tree.leaves(scale)):
        raise BadInput("the scale of a Gaussian prior must be above 0 and finite everywhere: choose another")
    n_parameters, unravel = _unravelling(mean)

    def sample(key: PRNGKeyArray) -> Parameters:
        # One draw for all leaves: a generator per leaf would take seconds to compile.
        noise = unravel(jax.random.normal(key, (n_parameters,)))
        return jax.tree.map(lambda m, s, z: m + s * z, mean, scale, noise)

    def log_ratio(a: Parameters, b: Parameters) -> Float[Array, ""]:
        def term(a: Array, b: Array, m: Any, s: Any) -> Array:
            return jnp.sum((b - a) * (a + b - 2 * m) / (2 * s**2))

        return jax.tree.reduce(jnp.add, jax.tree.map(term, a, b, mean, scale))

    return Prior(sample, log_ratio)


def equal_scale(shapes: Parameters, scale: float) -> Prior:
    """Build a prior of zero mean and one standard deviation for every weight and bias."""
    mean = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
    return gaussian(mean, jax.tree.map(lambda _: scale, shapes))


def fan_in(shapes: Parameters) -> Prior:
    """Build a prior of zero mean and variance 1/fan_in per layer, biases too.

    `shapes` is a Flax parameter tree (arrays or shapes), in which each layer is a dictionary with a
    ``kernel`` and perhaps a ``bias``; fan_in is the product of all but the kernel's last axis.
    """

    def layer_scale(layer: Any) -> Any:
        if "kernel" not in layer:
            return {name: layer_scale(inner) for name, inner in layer.items()}
        scale = 1 / math.sqrt(math.prod(layer["kernel"].shape[:-1]))
        return {name: np.float32(scale) for name in layer}

    mean = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
    return gaussian(mean, layer_scale(shapes))


class Flattened(NamedTuple):
    """A prior on flat vectors, and the way from a vector back to the parameters."""

    prior: FlatPrior
    unravel: Callable[[Array], Parameters]
    n_parameters: int


def flattened(prior: Prior) -> Flattened:
    """Flatten a prior; what it draws tells the parameters' shapes."""
    n_parameters, unravel = _unravelling(jax.eval_shape(lambda: prior.sample(jax.random.key(0))))

    def log_ratio(a: Float[Array, " parameter"], b: Float[Array, " parameter"]) -> Float[Array, ""]:
        return prior.log_ratio(unravel(a), unravel(b))

    def gradient(flat: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        # Differentiated as a pytree: through `unravel` each leaf's gradient would be padded and added.
        parameters = unravel(flat)
        return ravel(jax.grad(lambda p: prior.log_ratio(p, jax.lax.stop_gradient(p)))(parameters))

    flat_prior = FlatPrior(lambda key: ravel(prior.sample(key)), log_ratio, gradient)
    return Flattened(flat_prior, unravel, n_parameters)


def _unravelling(shapes: Parameters) -> tuple[int, Callable[[Array], Parameters]]:
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
