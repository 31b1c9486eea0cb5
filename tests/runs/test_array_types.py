"""Arrays of any type that has numbers are sampled as the same values in float32 are."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from flax import linen as nn

from smcda import BadInput, SamplerConfig, from_flax, likelihoods, priors, run
from smcda.models.flax import parameters_of

X = np.random.default_rng(3).integers(-8, 9, (40, 3)).astype(np.float32) / 4
Y = X[:, 0] + 0.5


def go(x, y):
    model = from_flax(nn.Dense(1), x, likelihoods.gaussian(0.5), priors.normal())
    return run(model, (x, y), SamplerConfig(particles=5, max_moves=1), progress=False)


@pytest.mark.parametrize(
    "convert",
    [lambda a: a.astype(a.dtype.newbyteorder()), lambda a: a.astype(">f8"), pd.DataFrame],
    ids=["swapped bytes", "swapped doubles", "data frame"],
)
def test_other_byte_orders_and_data_frames_change_nothing(convert):
    expected, found = go(X, Y), go(convert(X), convert(Y))
    np.testing.assert_array_equal(found.params["kernel"], expected.params["kernel"])
    assert found.log_evidence == expected.log_evidence


def test_bfloat16_are_numbers():
    assert np.isfinite(go(jnp.asarray(X, jnp.bfloat16), jnp.asarray(Y, jnp.bfloat16)).params["kernel"]).all()


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_what_jax_does_not_have_is_refused():
    with pytest.raises(BadInput, match="y is of type .*, which JAX does not have: convert it to float64"):
        go(X, Y.astype(np.longdouble))


def test_a_data_frame_of_text_is_no_example():
    with pytest.raises(BadInput, match="example_x is of type (object|str), but must be numbers: encode it"):
        parameters_of(nn.Dense(1), pd.DataFrame({"a": ["x", "y"]}))
