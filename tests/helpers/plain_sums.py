"""Log-likelihood and gradient sums of made-up images by a textbook network, to hold others against."""

import jax
import jax.numpy as jnp
import numpy as np

from smcda.smc.batches import Window, to_device

RNG = np.random.default_rng(11)
IMAGES = RNG.integers(0, 256, (90, 28, 28), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 90, dtype=np.uint8)


def window(start, split, stop):
    return Window(*(jnp.asarray(bound, jnp.int32) for bound in (start, split, stop)), jnp.float32(1))


def in_order(images, labels, wraparound=1):
    return to_device(images, labels, seed=None, wraparound=wraparound)


def plain_sums(network, flat, particles, images, labels):
    """Value and gradient of each particle, by Flax's own convolutions and JAX's own derivatives."""
    pixels = jnp.asarray(images[..., None] / 255, particles.dtype)

    def log_likelihood(particle):
        logits = network.apply({"params": flat.unravel(particle)}, pixels)
        return jnp.sum(jax.nn.log_softmax(logits)[np.arange(len(labels)), labels])

    return jax.jit(jax.vmap(jax.value_and_grad(log_likelihood)))(particles)


def assert_gradients_equal(flat, found, expected):
    """Layer by layer, relative to the layer's largest number."""
    for ours, plain in zip(found, expected, strict=True):
        pairs = zip(jax.tree.leaves(flat.unravel(ours)), jax.tree.leaves(flat.unravel(plain)), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * np.abs(b).max())
