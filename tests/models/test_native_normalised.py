"""The native gradients with batch normalisation are those of a plain Flax network with it."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.plain_sums import IMAGES, LABELS, assert_gradients_equal, in_order, plain_sums, window

from smcda.bench.baseline import PlainFashionCNN
from smcda.models import native
from smcda.models.flat import flattened, ravel
from smcda.models.lenet import make_model
from smcda.smc.likelihood import xla_likelihood

SIZE = 37  # images of a minibatch: two groups of lanes and a bit
N_PARTICLES = 3
PLAIN = PlainFashionCNN(batch_norm=True)


@pytest.fixture(scope="module")
def model():
    return make_model("fashion_cnn", "fan_in", jnp.asarray(IMAGES[:SIZE]))


@pytest.fixture(scope="module")
def flat(model):
    return flattened(model.prior)


@pytest.fixture(scope="module")
def particles(flat):
    return jax.vmap(flat.prior.sample)(jax.random.split(jax.random.key(5), N_PARTICLES))


@pytest.fixture(scope="module")
def compiled():
    return native.load("fashion_cnn", jnp.asarray(IMAGES[:SIZE]))


def without_biases_of_convolutions(flat, gradients):
    """Zeros where normalising takes a bias away, and derivatives by JAX are left with rounding."""
    layers = jax.vmap(flat.unravel)(gradients)
    for name in ("conv1", "conv2"):
        layers[name]["bias"] = jnp.zeros_like(layers[name]["bias"])
    return jax.vmap(ravel)(layers)


def test_each_minibatch_is_normalised_by_itself(compiled, flat, particles):
    sums = jax.jit(compiled.likelihood)(
        particles, in_order(IMAGES, LABELS), window(3, 3 + SIZE, 3 + 2 * SIZE)
    )
    for part in (0, 1):
        mine = slice(3 + part * SIZE, 3 + (part + 1) * SIZE)
        value, gradient = plain_sums(PLAIN, flat, particles, IMAGES[mine], LABELS[mine])
        np.testing.assert_allclose(sums.value[part], value, rtol=1e-5)
        expected = without_biases_of_convolutions(flat, gradient)
        assert_gradients_equal(flat, sums.gradient[part], expected)


# A part of several minibatches, cut into chunks or not; parts that end within a minibatch; empty ones.
# (Images 2 to 38 have two outputs of the second convolution within 4e-7: rounding decides which is larger.)
@pytest.mark.parametrize("bounds", [(0, 74, 90), (5, 5, 79), (1, 38, 39), (4, 4, 4)])
@pytest.mark.parametrize("n_particles", [1, N_PARTICLES])
def test_sums_are_those_of_xla(compiled, model, flat, particles, bounds, n_particles):
    batches, chosen = in_order(IMAGES, LABELS, wraparound=SIZE), particles[:n_particles]
    by_xla = xla_likelihood(model.log_likelihood, flat.unravel, SIZE, n_particles)
    xla = jax.jit(by_xla)(chosen, batches, window(*bounds))
    sums = jax.jit(compiled.likelihood)(chosen, batches, window(*bounds))
    np.testing.assert_allclose(sums.value, xla.value, rtol=1e-5)
    for part in (0, 1):
        expected = without_biases_of_convolutions(flat, xla.gradient[part])
        assert_gradients_equal(flat, sums.gradient[part], expected)


def test_a_background_that_is_the_same_all_over_costs_no_digits(flat, particles):
    # Hundreds of equal numbers, added one by one, would put the statistics off by 3e-5 and more.
    images = np.full((200, 28, 28), 40, np.uint8)
    images[:, :3, :3] = IMAGES[:1, :3, :3] // np.arange(1, 201, dtype=np.uint8)[:, None, None]
    found = jax.jit(native.load("fashion_cnn", jnp.asarray(images)).outputs)(particles, jnp.asarray(images))

    def exactly(particle):
        parameters = jax.tree.map(jnp.float64, flat.unravel(particle))
        return PLAIN.apply({"params": parameters}, jnp.asarray(images[..., None] / 255))

    with jax.enable_x64(True):
        exact = np.asarray(jax.jit(jax.vmap(exactly))(particles))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


def test_logits_use_the_statistics_of_the_reference(compiled, model, flat, particles):
    outputs = jax.vmap(lambda particle, x: model.predict(flat.unravel(particle), x), in_axes=(0, None))
    by_xla = jax.jit(outputs)(particles, jnp.asarray(IMAGES[40:75]))
    found = jax.jit(compiled.outputs)(particles, jnp.asarray(IMAGES[40:75]))
    np.testing.assert_allclose(found, by_xla, atol=2e-5)


def test_a_particle_that_is_not_a_number_spoils_only_itself(compiled, particles):
    batches, whole = in_order(IMAGES, LABELS), window(0, 0, SIZE)
    good = jax.jit(compiled.likelihood)(particles, batches, whole)
    sums = jax.jit(compiled.likelihood)(particles.at[1, 10].set(jnp.nan), batches, whole)
    assert np.isnan(sums.value[1, 1])
    np.testing.assert_array_equal(sums.gradient[1, (0, 2), :], good.gradient[1, (0, 2), :])


def test_a_minibatch_that_goes_past_the_stored_images_is_refused(compiled, particles):
    with pytest.raises(ValueError, match="the window leaves the data"):
        jax.jit(compiled.likelihood)(particles, in_order(IMAGES, LABELS), window(60, 60, 90))


DIGEST = """
import hashlib, sys, jax, jax.numpy as jnp, numpy as np
sys.path.insert(0, {tests!r})
from helpers.plain_sums import IMAGES, LABELS, in_order, window
from smcda.models import native
jax.config.update("jax_compilation_cache_dir", {cache!r})
particles = jnp.asarray(np.random.default_rng(0).normal(size=(2, 96658)) / 10, jnp.float32)
load = native.load("fashion_cnn", jnp.asarray(IMAGES[:10]))
sums = jax.jit(load.likelihood)(particles, in_order(IMAGES, LABELS, wraparound=10), window(0, 45, 90))
print(hashlib.sha256(np.asarray(sums.value).tobytes() + np.asarray(sums.gradient).tobytes()).hexdigest())
"""


def test_sums_are_the_same_bits_on_any_number_of_threads(cache):
    def digest(threads):
        script = DIGEST.format(cache=str(cache), tests=str(Path(__file__).parents[1]))
        command = [sys.executable, "-c", script]
        environment = os.environ | {"NPROC": threads}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert digest("1") == digest("3") != ""
