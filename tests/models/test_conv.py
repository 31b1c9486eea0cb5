"""`Conv` is `nn.Conv`: the same parameters, outputs and gradients, for any stride and padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from smcda.models.conv import Conv

IMAGES = jnp.asarray(np.random.default_rng(2).normal(size=(3, 9, 8, 2)), jnp.float32)


@pytest.mark.parametrize(
    ("size", "strides", "padding"),
    [
        ((3, 3), 1, "SAME"),
        ((2, 5), 2, "SAME"),
        ((3, 3), (3, 1), "VALID"),
        ((2, 5), 1, ((2, 1), (0, 3))),
        ((1, 1), 2, "SAME"),
    ],
    ids=str,
)
def test_values_and_gradients_are_those_of_flax(size, strides, padding):
    options = {"strides": strides, "padding": padding}
    ours, plain = Conv(4, size, **options), nn.Conv(4, size, **options)
    parameters = plain.init(jax.random.key(0), IMAGES)
    parameters = jax.tree.map(lambda leaf: leaf + 0.3, parameters)
    assert jax.tree.map(jnp.shape, ours.init(jax.random.key(0), IMAGES)) == jax.tree.map(
        jnp.shape, parameters
    )

    def loss(module, parameters, images):
        outputs = module.apply(parameters, images)
        return jnp.sum(jnp.sin(outputs)), outputs

    (found, outputs), gradients = jax.value_and_grad(loss, (1, 2), has_aux=True)(ours, parameters, IMAGES)
    (expected, others), plain_gradients = jax.value_and_grad(loss, (1, 2), has_aux=True)(
        plain, parameters, IMAGES
    )
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_allclose(outputs, others, rtol=1e-4, atol=1e-5)
    for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(plain_gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_mapped_over_particles_it_holds_no_convolution():
    module = Conv(4, (3, 3))
    parameters = jax.vmap(lambda key: module.init(key, IMAGES))(jax.random.split(jax.random.key(0), 5))
    text = jax.jit(jax.vmap(lambda p: module.apply(p, IMAGES))).lower(parameters).as_text()
    assert "dot_general" in text and "convolution" not in text


def test_without_a_bias_there_is_none():
    parameters = Conv(4, (3, 3), use_bias=False).init(jax.random.key(0), IMAGES)
    assert list(parameters["params"]) == ["kernel"]
