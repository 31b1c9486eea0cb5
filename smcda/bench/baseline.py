"""The plain implementation that one would write first, against which the package is measured.

Plain Flax networks with ``nn.Conv``, mapped over particles by `jax.vmap` with the whole batch at once, and a
move that computes log-density and gradient anew at both of its ends, because nothing is remembered from one
iteration to the next. The networks have the same parameters as ours, in the same order.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from smcda.models.base import Model
from smcda.models.flat import Flattened


class PlainLeNet5(nn.Module):
    """LeNet-5 as a textbook has it."""

    @nn.compact
    def __call__(self, x: Float[Array, "image 28 28 1"]) -> Float[Array, "image 10"]:
        """Logits of each image."""
        x = nn.avg_pool(jnp.tanh(nn.Conv(6, (5, 5), padding="SAME", name="conv1")(x)), (2, 2), (2, 2))
        x = nn.avg_pool(jnp.tanh(nn.Conv(16, (5, 5), padding="VALID", name="conv2")(x)), (2, 2), (2, 2))
        x = x.reshape(len(x), -1)
        x = jnp.tanh(nn.Dense(120, name="dense1")(x))
        x = jnp.tanh(nn.Dense(84, name="dense2")(x))
        return nn.Dense(10, name="dense3")(x)


class PlainFashionCNN(nn.Module):
    """The FashionMNIST network as a textbook has it."""

    batch_norm: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "image 28 28 1"]) -> Float[Array, "image 10"]:
        """Logits of each image."""
        for name, features in (("conv1", 8), ("conv2", 16)):
            x = nn.Conv(features, (3, 3), padding="SAME", name=name)(x)
            if self.batch_norm:
                x = (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5)
            x = nn.max_pool(jnp.tanh(x), (2, 2), (2, 2))
        x = jnp.tanh(nn.Dense(120, name="dense1")(x.reshape(len(x), -1)))
        return nn.Dense(10, name="dense2")(x)


PLAIN: dict[str, Callable[..., nn.Module]] = {"lenet5": PlainLeNet5, "fashion_cnn": PlainFashionCNN}

ValueAndGradient = Callable[
    [Float[Array, "particle parameter"]],
    tuple[Float[Array, " particle"], Float[Array, "particle parameter"]],
]


def log_density(
    network: nn.Module,
    model: Model,
    flat: Flattened,
    x: UInt8[Array, "image 28 28"],
    y: Array,
    n_data: int,
) -> ValueAndGradient:
    """Scaled log-posterior of a batch and its gradient, mapped over particles."""

    def one(particle: Float[Array, " parameter"]) -> Float[Array, ""]:
        parameters = flat.unravel(particle)
        pixels = x[..., None].astype(jnp.float32) / 255
        log_p = jax.nn.log_softmax(jnp.asarray(network.apply({"params": parameters}, pixels)))
        likelihood = jnp.sum(jnp.take_along_axis(log_p, y[:, None].astype(jnp.int32), axis=1))
        origin = jax.tree.map(jnp.zeros_like, parameters)
        return n_data / len(x) * likelihood + model.joint_prior.log_ratio(parameters, origin)

    return jax.vmap(jax.value_and_grad(one))


def iteration(
    key: PRNGKeyArray,
    particles: Float[Array, "particle parameter"],
    log_weights: Float[Array, " particle"],
    density: ValueAndGradient,
    step_size: float,
    n_steps: int,
) -> tuple[Float[Array, "particle parameter"], Float[Array, " particle"], Int[Array, " particle"]]:
    """Move by leapfrog, reweight, draw ancestors."""
    key_momentum, key_ancestors = jax.random.split(key)
    momentum = jax.random.normal(key_momentum, particles.shape)
    before, gradient = density(particles)
    kinetic = 0.5 * jnp.sum(momentum**2, axis=1)
    after = before
    for _ in range(n_steps):
        momentum = momentum + 0.5 * step_size * gradient
        particles = particles + step_size * momentum
        after, gradient = density(particles)
        momentum = momentum + 0.5 * step_size * gradient
    log_weights = log_weights + after - before + kinetic - 0.5 * jnp.sum(momentum**2, axis=1)
    ancestors = jax.random.categorical(key_ancestors, log_weights, shape=log_weights.shape)
    return particles, log_weights, ancestors
