"""The two networks, and how one becomes a likelihood, a prior and a predictor.

Both take ``uint8`` images of 28 x 28 pixels, scale them to [0, 1] and give ten logits. Their
parameter counts (61,706 and 96,658) are the published ones and fix the architectures.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Integer, UInt8

from smcda.models.conv_pool import ConvPool, average_of_tile, maximum_of_tile
from smcda.models.priors import Parameters, Prior, fan_in_gaussian, flat_gaussian
from smcda.smc.target import LogLikelihood

N_CLASSES = 10
Images = UInt8[Array, "image 28 28"]
Reference = UInt8[Array, "reference 28 28"]


class LeNet5(nn.Module):
    """Two convolutions with tanh and average pooling, three dense layers; 61,706 parameters."""

    @nn.compact
    def __call__(self, images: Images) -> Float[Array, "image 10"]:
        """Logits of each image."""
        x = _pixels(images)
        x = ConvPool(6, 5, padding=2, pool=average_of_tile, between=jnp.tanh, name="conv1")(x)
        x = ConvPool(16, 5, padding=0, pool=average_of_tile, between=jnp.tanh, name="conv2")(x)
        x = x.reshape(len(x), -1)
        x = jnp.tanh(nn.Dense(120, name="dense1")(x))
        x = jnp.tanh(nn.Dense(84, name="dense2")(x))
        return nn.Dense(N_CLASSES, name="dense3")(x)


class FashionCNN(nn.Module):
    """Two convolutions with tanh and max pooling, two dense layers; 96,658 parameters.

    With `batch_norm`, each convolution's outputs are normalised, without parameters, by the mean and
    variance of the minibatch itself, or of `reference` images where they are given (at test time).
    """

    batch_norm: bool = False

    @nn.compact
    def __call__(self, images: Images, reference: Reference | None = None) -> Float[Array, "image 10"]:
        """Logits of each image."""
        n_reference = 0 if reference is None else len(reference)
        if reference is not None:
            images = jnp.concatenate([reference, images])
        between = partial(_normalise, n_reference=n_reference) if self.batch_norm else _unchanged
        # tanh rises monotonically, so it commutes with the maximum: a quarter of the evaluations.
        x = _pixels(images)
        x = jnp.tanh(ConvPool(8, 3, padding=1, pool=maximum_of_tile, between=between, name="conv1")(x))
        x = jnp.tanh(ConvPool(16, 3, padding=1, pool=maximum_of_tile, between=between, name="conv2")(x))
        x = x[n_reference:].reshape(len(x) - n_reference, -1)
        x = jnp.tanh(nn.Dense(120, name="dense1")(x))
        return nn.Dense(N_CLASSES, name="dense2")(x)


NETWORKS: dict[str, Callable[..., nn.Module]] = {"lenet5": LeNet5, "fashion_cnn": FashionCNN}


class Model(NamedTuple):
    """A network as the sampler and the predictor want it, with the prior on its weights."""

    log_likelihood: LogLikelihood
    logits: Callable[[Parameters, Images], Float[Array, "image 10"]]
    prior: Prior


def make_model(
    network: nn.Module, reference: Reference | None = None, prior_scale: float | None = None
) -> Model:
    """Wrap a classifier; `reference` images supply the statistics of batch normalisation at test time.

    `prior_scale` is the prior's standard deviation for every weight; None has it by layer, 1/sqrt(fan_in).
    """
    parameters = _shapes(network)

    def log_likelihood(
        parameters: Parameters, x: Images, y: Integer[Array, " image"]
    ) -> Float[Array, " image"]:
        logits = network.apply({"params": parameters}, x)
        log_probabilities = jax.nn.log_softmax(jnp.asarray(logits))
        return jnp.take_along_axis(log_probabilities, y[:, None], axis=1)[:, 0]

    def logits(parameters: Parameters, x: Images) -> Float[Array, "image 10"]:
        arguments = (x,) if reference is None else (x, reference)
        return jnp.asarray(network.apply({"params": parameters}, *arguments))

    prior = fan_in_gaussian(parameters) if prior_scale is None else flat_gaussian(parameters, prior_scale)
    return Model(log_likelihood, logits, prior)


def count_parameters(network: nn.Module) -> int:
    """D, the number of weights and biases."""
    return sum(leaf.size for leaf in jax.tree.leaves(_shapes(network)))


def _shapes(network: nn.Module) -> Any:
    image = jax.ShapeDtypeStruct((1, 28, 28), jnp.uint8)
    return jax.eval_shape(lambda image: network.init(jax.random.key(0), image), image)["params"]


def _pixels(images: Images) -> Float[Array, "image 28 28 1"]:
    return images[..., None].astype(jnp.float32) / 255


def _unchanged(tiles: Float[Array, "*any"]) -> Float[Array, "*any"]:
    return tiles


def _normalise(
    tiles: Float[Array, "image *any channel"], n_reference: int
) -> Float[Array, "image *any channel"]:
    source = tiles[:n_reference] if n_reference else tiles
    axes = tuple(range(tiles.ndim - 1))
    mean, variance = jnp.mean(source, axes), jnp.var(source, axes)
    return (tiles - mean) / jnp.sqrt(variance + 1e-5)
