"""Starts: where the first particles come from, if not from the prior."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.flat import Flattened, Parameters, Shapes, parameter_shapes, ravel, unravelling
from smcda.models.priors import Prior, joint, layer_scales, total
from smcda.smc.target import FlatStart


@dataclasses.dataclass(frozen=True)
class Start:
    """Where the first particles come from, apart from the prior.

    Their first weights are ``q0 / q_start`` where `log_density` is given, so that the result is exact.
    Without it nothing can correct for the start, and there is no evidence.

    Attributes:
        sample: ``(key) -> parameters``, one draw.
        log_density: ``(a) -> log q_start(a)``, normalised.
        is_continuous: whether that is a density in all coordinates; if not, there is no evidence.

    """

    sample: Callable[[PRNGKeyArray], Parameters]
    log_density: Callable[[Parameters], Any] | None = None
    is_continuous: bool = True


def lecun(model: Model) -> Start:
    """Flax's default initialisation of a network; a likelihood's own parameters start from their prior."""
    network = of_kernels(parameter_shapes(joint(model.prior)))
    own = None if model.likelihood is None else model.likelihood.prior
    if own is None:
        return network
    assert network.log_density is not None
    density = network.log_density

    def sample(key: PRNGKeyArray) -> Parameters:
        keys = jax.random.split(key)
        return {"model": network.sample(keys[0]), "likelihood": own.sample(keys[1])}

    def log_density(a: Parameters) -> Float[Array, ""]:
        return density(a["model"]) + own.log_density(a["likelihood"])

    return Start(sample, log_density, is_continuous=False)


def of_kernels(shapes: Shapes) -> Start:
    """Flax's default initialisation as a start: kernels truncated normal of variance 1/fan_in, biases zero.

    The normal is cut off at two of its own standard deviations. Constants have no density: first weights take
    it over the kernels alone, and there is no evidence.
    """
    # The variance of a standard normal cut off at +-2, and its probability of lying between.
    inside = math.erf(2 / math.sqrt(2))
    variance = 1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / inside
    n_parameters, unravel = unravelling(shapes)
    scales = jax.tree.map(lambda scale: scale / np.float32(math.sqrt(variance)), layer_scales(shapes))

    def is_drawn(path: Any) -> bool:
        return jax.tree_util.keystr(path[-1:], simple=True) == "kernel"

    def sample(key: PRNGKeyArray) -> Parameters:
        noise = unravel(jax.random.truncated_normal(key, -2.0, 2.0, (n_parameters,)))
        return jax.tree_util.tree_map_with_path(
            lambda path, z, s: s * z if is_drawn(path) else jnp.zeros_like(z), noise, scales
        )

    def log_density(a: Parameters) -> Float[Array, ""]:
        def term(path: Any, a: Array, s: Any) -> Any:
            each = -0.5 * (a / s) ** 2 - jnp.log(s) - math.log(inside * math.sqrt(2 * math.pi))
            return jnp.sum(each) if is_drawn(path) else 0.0

        return total(jax.tree_util.tree_map_with_path(term, a, scales))

    return Start(sample, log_density, is_continuous=False)


def flat_start(start: Start, prior: Prior, flat: Flattened) -> FlatStart:
    """Flatten a start beside its prior; raises `BadInput` if they draw different things."""
    drawn, own = (jax.eval_shape(lambda d=d: d.sample(jax.random.key(0))) for d in (start, prior))
    found, wanted = (jax.tree.map(lambda leaf: tuple(leaf.shape), tree) for tree in (drawn, own))
    if found != wanted:
        raise BadInput(f"the start draws parameters of shapes {found}, but the prior of {wanted}")
    log_density = start.log_density
    if log_density is None:
        return FlatStart(lambda key: ravel(start.sample(key)))

    def log_weight(a: Float[Array, " parameter"]) -> Float[Array, ""]:
        parameters = flat.unravel(a)
        return jnp.asarray(prior.log_density(parameters) - log_density(parameters))

    return FlatStart(lambda key: ravel(start.sample(key)), log_weight)
