"""A Flax module as a `Model`."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array

from smcda.models.base import Model
from smcda.models.likelihoods import Likelihood
from smcda.models.priors import Parameters, Prior


def parameter_shapes(module: nn.Module, example_x: Any) -> Any:
    """Shapes of a module's parameters, without computing any; of `example_x` only shape and dtype matter."""
    example = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), example_x)
    return jax.eval_shape(lambda x: module.init(jax.random.key(0), x), example)["params"]


def from_flax(
    module: nn.Module, likelihood: Likelihood, prior: Prior, *test_arguments: Any, **more: Any
) -> Model:
    """Wrap a module whose outputs `likelihood` understands.

    `test_arguments` follow x when the module predicts (batch normalisation takes its statistics from them);
    `more` are fields of `Model`.
    """

    def log_likelihood(parameters: Parameters, x: Any, y: Any) -> Array:
        return likelihood.log_prob(module.apply({"params": parameters}, x), y)

    def predict(parameters: Parameters, x: Any) -> Array:
        return jnp.asarray(module.apply({"params": parameters}, x, *test_arguments))

    return Model(log_likelihood, prior, predict, likelihood, **more)
