"""The programs of runs as a GPU would get them, and what they must not hold."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from smcda.bench.deviceless import programs
from smcda.config import SamplerConfig
from smcda.models.base import Model
from smcda.models.lenet import make_model
from smcda.models.priors import gaussian

N_DATA, MINIBATCH = 60_000, 500
NETWORKS = ("lenet5", "fashion_cnn", "fashion_cnn normalised")


def network(name):
    reference = jnp.zeros((MINIBATCH, 28, 28), jnp.uint8) if name.endswith("normalised") else None
    return make_model(name.split()[0], 0.1, reference)


def network_programs(name, devices, scheme="linear", particles=100, chunk=100, memory=None, **more):
    """Programs of a run of one of `NETWORKS` on all training images."""
    more = {"batch_size": MINIBATCH, "devices": len(devices)} | more
    config = SamplerConfig(scheme, "hmc", particles, particle_chunk=chunk, **more)
    return programs(network(name), config, N_DATA, devices, memory)


def regression_programs(devices, scheme, **more):
    """Programs of a run of a small model: a linear regression on three inputs."""

    def log_likelihood(parameters, x, y):
        return -((y - x @ parameters) ** 2)

    config = SamplerConfig(scheme, particles=8, iterations=20, batch_size=10, particle_chunk=8, **more)
    x, y = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((3,), ()))
    model = Model.from_log_likelihood(log_likelihood, gaussian(np.zeros(3), 1.0))
    return programs(model, config, 100, devices, x=x, y=y)


def custom_calls(text):
    """Names of what a program calls outside itself, in StableHLO or HLO."""
    found = re.findall(r'custom_call @([\w.$]+)|custom_call_target="([^"]+)"', text)
    return {one or other for one, other in found}


def assert_fit_for_a_gpu(text, allowed_calls=()):
    """Nothing that stops at the host, runs on other code than the GPU's own, or is slow there."""
    assert custom_calls(text) <= set(allowed_calls)
    for unwanted in ("callback", "f64", "outfeed", "infeed", "SendToHost"):
        assert unwanted not in text, unwanted
    # Mapped over particles, a convolution would be a grouped one; there is none at all.
    assert not re.search(r"stablehlo\.convolution|[ =]convolution\(|cudnn", text)
