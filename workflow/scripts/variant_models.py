"""The networks of the experiments: one of the package's, with what the variant changes."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from smcda.models import native
from smcda.models.conv_pool import ConvPool, maximum_of_tile
from smcda.models.lenet import NETWORKS, make_model

MINIBATCH = 500


class MaxPoolingLeNet5(nn.Module):
    """LeNet-5 with the maximum of each tile in place of its mean."""

    @nn.compact
    def __call__(self, images: Any) -> Any:
        """Logits of each image."""
        x = images[..., None].astype(jnp.float32) / 255
        for n_out, padding in ((6, 2), (16, 0)):
            x = ConvPool(n_out, 5, padding=padding, pool=maximum_of_tile, between=jnp.tanh)(x)
        x = x.reshape(len(x), -1)
        for width in (120, 84):
            x = jnp.tanh(nn.Dense(width)(x))
        return nn.Dense(10)(x)


def standardiser(images: np.ndarray) -> Callable[[Any], Any]:
    """Give the way to pixels that have mean 0 and variance 1 once the network has divided them by 255."""
    mean, std = images.mean(), images.std()
    return lambda x: 255 * (x.astype(jnp.float32) - mean) / std


def changed_model(
    network: str,
    data: Any,
    *,
    prior_scale: float | None,
    batch_norm: bool,
    standardised: bool = False,
    max_pooling: bool = False,
) -> tuple[Any, Any, int | None]:
    """Put the network together as asked for.

    Also gives its native code, where there is some, and the number of images that must stay together:
    a minibatch, where it is normalised by its own statistics.
    """
    if max_pooling:
        return make_model(MaxPoolingLeNet5(), prior_scale=prior_scale), None, None
    options = {"batch_norm": True} if batch_norm else {}
    reference = jnp.asarray(data.train_x[:MINIBATCH]) if batch_norm else None
    minibatch = MINIBATCH if batch_norm else None
    if not standardised:
        model = make_model(NETWORKS[network](**options), reference, prior_scale)
        return model, native.load(network, reference), minibatch
    standardise = standardiser(data.train_x)
    plain = make_model(
        NETWORKS[network](**options), None if reference is None else standardise(reference), prior_scale
    )
    model = plain._replace(
        log_likelihood=lambda parameters, x, y: plain.log_likelihood(parameters, standardise(x), y),
        logits=lambda parameters, x: plain.logits(parameters, standardise(x)),
    )
    return model, None, minibatch
