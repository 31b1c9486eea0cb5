"""The two published networks.

Both take ``uint8`` images of 28 x 28 pixels, scale them to [0, 1] and give ten logits. Their
parameter counts (61,706 and 96,658) are the published ones and fix the architectures.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, UInt8

from smcda.config import DEFAULT_PRIOR_SCALE, PriorScale
from smcda.models import native
from smcda.models.base import Model
from smcda.models.conv_pool import ConvMaxTanh, ConvTanhMean
from smcda.models.flax import from_flax
from smcda.models.likelihoods import categorical
from smcda.models.priors import of_scale

N_CLASSES = 10
EXAMPLE = jax.ShapeDtypeStruct((1, 28, 28), jnp.uint8)
"""Shape of what the networks take."""

Images = UInt8[Array, "image 28 28"]
Reference = UInt8[Array, "reference 28 28"]


class LeNet5(nn.Module):
    """Two convolutions with tanh and average pooling, three dense layers; 61,706 parameters."""

    @nn.compact
    def __call__(self, images: Images) -> Float[Array, "image 10"]:
        """Logits of each image."""
        x = _pixels(images)
        x = ConvTanhMean(6, 5, padding=2, name="conv1")(x)
        x = ConvTanhMean(16, 5, padding=0, name="conv2")(x)
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
        x = _pixels(images)
        x = ConvMaxTanh(8, 3, padding=1, batch_norm=self.batch_norm, name="conv1")(x, n_reference)
        x = ConvMaxTanh(16, 3, padding=1, batch_norm=self.batch_norm, name="conv2")(x, n_reference)
        x = x[n_reference:].reshape(len(x) - n_reference, -1)
        x = jnp.tanh(nn.Dense(120, name="dense1")(x))
        return nn.Dense(N_CLASSES, name="dense2")(x)


MODELS: dict[str, Callable[..., nn.Module]] = {"lenet5": LeNet5, "fashion_cnn": FashionCNN}


def make_model(
    name: str, prior_scale: PriorScale = DEFAULT_PRIOR_SCALE, reference: Reference | None = None
) -> Model:
    """One of `MODELS` with its prior and its native code.

    `prior_scale` is the prior's standard deviation for every weight, `fan_in` for 1/sqrt(fan_in) per layer,
    `2*fan_in` for twice that, or `hierarchical`.
    `reference` images switch batch normalisation on: over minibatches of as many images as these, and by the
    statistics of these themselves at test time.
    """
    module = MODELS[name]() if reference is None else MODELS[name](batch_norm=True)
    test_arguments = () if reference is None else (reference,)
    return from_flax(
        module,
        EXAMPLE,
        categorical(),
        of_scale(prior_scale),
        *test_arguments,
        native=partial(native.load, name, reference) if name in native.NETWORKS else None,
        minibatch=None if reference is None else len(reference),
    )


def _pixels(images: Images) -> Float[Array, "image 28 28 1"]:
    return images[..., None].astype(jnp.float32) / 255
