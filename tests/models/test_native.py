"""The native gradients are those of a plain Flax network, however the work is cut."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.plain_sums import IMAGES, LABELS, assert_gradients_equal, in_order, plain_sums, window

from smcda.bench.baseline import PLAIN
from smcda.errors import BadInput
from smcda.models import native
from smcda.models.base import Model
from smcda.models.flat import flattened, ravel
from smcda.models.lenet import make_model
from smcda.models.priors import gaussian
from smcda.parallel.plan import choose_fast_code
from smcda.smc.likelihood import xla_likelihood

N_PARTICLES = 3


@pytest.fixture(scope="module", params=native.NETWORKS)
def case(request):
    """A network's name, its native functions, its flattened prior and some particles."""
    flat = flattened(make_model(request.param, "fan_in").prior)
    particles = jax.vmap(flat.prior.sample)(jax.random.split(jax.random.key(5), N_PARTICLES))
    return request.param, native.load(request.param), flat, particles


# Bounds that leave groups of images half empty, empty parts, and more than one chunk of images.
@pytest.mark.parametrize("bounds", [(3, 40, 61), (0, 0, 16), (7, 90, 90), (5, 5, 6)])
def test_sums_equal_those_of_a_plain_network(case, bounds):
    network, compiled, flat, particles = case
    sums = jax.jit(compiled.likelihood)(particles, in_order(IMAGES, LABELS), window(*bounds))
    for part, (begin, end) in enumerate(zip(bounds, bounds[1:], strict=False)):
        if begin == end:
            assert not np.any(sums.value[part])
            assert not np.any(sums.gradient[part])
        else:
            value, gradient = plain_sums(
                PLAIN[network](), flat, particles, IMAGES[begin:end], LABELS[begin:end]
            )
            np.testing.assert_allclose(sums.value[part], value, rtol=1e-5)
            assert_gradients_equal(flat, sums.gradient[part], gradient)


def test_logits_equal_those_of_a_plain_network(case):
    network, compiled, flat, particles = case
    pixels = jnp.asarray(IMAGES[:37, ..., None] / 255, jnp.float32)
    plain = jax.jit(jax.vmap(lambda p: PLAIN[network]().apply({"params": flat.unravel(p)}, pixels)))
    found = jax.jit(compiled.outputs)(particles, jnp.asarray(IMAGES[:37]))
    np.testing.assert_allclose(found, plain(particles), atol=2e-5)


def test_a_saturated_network_has_the_same_sums(case):
    # Weights so large that most units sit where tanh is 1 to the last digit.
    network, compiled, flat, particles = case
    sums = jax.jit(compiled.likelihood)(20 * particles, in_order(IMAGES, LABELS), window(0, 0, 30))
    value, gradient = plain_sums(PLAIN[network](), flat, 20 * particles, IMAGES[:30], LABELS[:30])
    np.testing.assert_allclose(sums.value[1], value, rtol=1e-4)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(sums.gradient[1], gradient, atol=1e-3 * np.abs(gradient).max())


def test_equal_maxima_share_the_gradient_as_they_do_in_jax(case):
    # Without kernels in the second layer all its outputs are equal, over patches that differ.
    name, compiled, flat, particles = case
    network = jax.vmap(flat.unravel)(particles)
    network["conv2"]["kernel"] = jnp.zeros_like(network["conv2"]["kernel"])
    particles = jax.vmap(ravel)(network)
    batches = in_order(IMAGES, LABELS)
    by_xla = xla_likelihood(make_model(name).log_likelihood, flat.unravel, 20, N_PARTICLES)
    xla = jax.jit(by_xla)(particles, batches, window(0, 0, 20))
    sums = jax.jit(compiled.likelihood)(particles, batches, window(0, 0, 20))
    assert_gradients_equal(flat, sums.gradient[1], xla.gradient[1])


def test_a_particle_that_is_not_a_number_spoils_only_itself(case):
    _, compiled, _, particles = case
    spoilt = particles.at[1, 10].set(jnp.nan)
    batches = in_order(IMAGES, LABELS)
    good = jax.jit(compiled.likelihood)(particles, batches, window(0, 0, 40))
    sums = jax.jit(compiled.likelihood)(spoilt, batches, window(0, 0, 40))
    assert np.isnan(sums.value[1, 1])
    np.testing.assert_array_equal(sums.gradient[1, (0, 2), :], good.gradient[1, (0, 2), :])


def test_a_long_sum_loses_few_digits(case):
    # The same image over and over, whose sum is known; added one by one it would be off by 2e-5.
    _, compiled, _, particles = case
    n = 40_960
    batches = in_order(np.repeat(IMAGES[:1], n, axis=0), np.full(n, 7, np.uint8))
    many = jax.jit(compiled.likelihood)(particles[:2], batches, window(0, 0, n))
    few = jax.jit(compiled.likelihood)(particles[:2], batches, window(0, 0, 16))
    expected = np.asarray(few.gradient[1], float) * (n / 16)
    np.testing.assert_allclose(many.value[1], few.value[1] * (n / 16), rtol=1e-6)
    np.testing.assert_allclose(many.gradient[1], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


DIGEST = """
import hashlib, jax, jax.numpy as jnp, numpy as np
from smcda.models import native
from smcda.smc.batches import Window, to_device
jax.config.update("jax_compilation_cache_dir", {cache!r})
rng = np.random.default_rng(0)
x, y = rng.integers(0, 256, (700, 28, 28), dtype=np.uint8), rng.integers(0, 10, 700, dtype=np.uint8)
particles = jnp.asarray(rng.normal(size=(2, 61706)) / 10, jnp.float32)
window = Window(*(jnp.asarray(b, jnp.int32) for b in (0, 300, 690)), jnp.float32(1))
sums = jax.jit(native.load("lenet5").likelihood)(particles, to_device(x, y, seed=None, wraparound=1), window)
print(hashlib.sha256(np.asarray(sums.value).tobytes() + np.asarray(sums.gradient).tobytes()).hexdigest())
"""


@pytest.mark.system
def test_sums_are_the_same_bits_on_any_number_of_threads(cache):
    def digest(threads):
        command = [sys.executable, "-c", DIGEST.format(cache=str(cache))]
        environment = os.environ | {"NPROC": threads}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert digest("1") == digest("3") != ""


def test_without_a_compiler_xla_takes_over_and_says_so(monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert choose_fast_code(make_model("lenet5"), "auto", jax.devices()[0]) is None
    assert "no C++ compiler" in caplog.text
    with pytest.raises(native.NotBuilt, match="no C\\+\\+ compiler"):
        choose_fast_code(make_model("lenet5"), "native", jax.devices()[0])


def test_a_compiler_that_fails_is_named(monkeypatch, caplog):
    monkeypatch.setenv("CXX", "false")
    assert choose_fast_code(make_model("lenet5"), "auto", jax.devices()[0]) is None
    assert "false failed" in caplog.text


def test_native_gradients_are_refused_where_there_are_none():
    model = Model.from_log_likelihood(lambda parameters, x, y: y, gaussian(np.zeros(2), 1.0))
    with pytest.raises(BadInput, match="built-in networks only: choose gradients xla"):
        choose_fast_code(model, "native", jax.devices()[0])
    assert choose_fast_code(model, "auto", jax.devices()[0]) is None
