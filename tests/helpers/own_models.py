"""A user's own model file: factories as `smcda run --model FILE:NAME` takes them."""

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx

from smcda import Model, likelihoods, priors


class Mlp(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(self.width)(x)))


def mlp(example_x, width=16):
    return Mlp(width)


class Cnn(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(3, 4, (3, 3), rngs=rngs)
        self.dense = nnx.Linear(4 * 16, 5, rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(nnx.tanh(self.conv(x.astype(jnp.float32) / 16)), (2, 2), (2, 2))
        return self.dense(x.reshape(len(x), -1))


def cnn(example_x):
    assert example_x.shape[1:] == (8, 8, 3)
    return Cnn(nnx.Rngs(0))


def linear(parameters, x):
    return jnp.sum(x * parameters["slope"], axis=1) + parameters["shift"]


def weights(n):
    return {"slope": priors.normal(np.zeros(n), 1.0), "shift": priors.normal()}


def logistic(example_x):
    return Model(linear, likelihoods.bernoulli(), weights(example_x.shape[1]))


def counts(example_x):
    return Model(linear, likelihoods.poisson(), weights(example_x.shape[1]))


def fails(example_x):
    raise RuntimeError("no such layer\nat all")


def exits(example_x):
    raise SystemExit(3)


def quits(example_x):
    def predict(parameters, x):
        raise SystemExit(5)

    return Model(predict, likelihoods.gaussian(), weights(example_x.shape[1]))


def nothing(example_x):
    return None


def a_class(example_x):
    return Mlp


def ten_logits(example_x):
    return Model(linear, likelihoods.categorical(), weights(example_x.shape[1]))


not_callable = 3
