"""The networks equal plain Flax ones, in values and gradients, with the published sizes and prior."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from smcda.bench.baseline import PLAIN, PlainFashionCNN
from smcda.models.conv_pool import ConvMaxTanh, ConvTanhMean, tile_max
from smcda.models.flat import flattened
from smcda.models.flax import from_flax
from smcda.models.lenet import MODELS, make_model
from smcda.models.likelihoods import categorical
from smcda.models.priors import gaussian

RNG = np.random.default_rng(4)
IMAGES = RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8)
PIXELS = jnp.asarray(IMAGES[..., None] / 255, jnp.float32)
N_PARTICLES = 3

FAN_IN = {
    "lenet5": {"conv1": 25, "conv2": 25 * 6, "dense1": 5 * 5 * 16, "dense2": 120, "dense3": 84},
    "fashion_cnn": {"conv1": 9, "conv2": 9 * 8, "dense1": 7 * 7 * 16, "dense2": 120},
}


def some_particles(name, n):
    """Parameters of about the prior's size, with biases that are not zero, on a leading axis of n."""
    shapes = jax.eval_shape(lambda: PLAIN[name]().init(jax.random.key(0), PIXELS))["params"]
    rng = np.random.default_rng(n)

    def values(leaf):
        scale = math.sqrt(math.prod(leaf.shape[:-1]))
        return jnp.asarray(rng.normal(size=(n, *leaf.shape)) / scale, jnp.float32)

    return jax.tree.map(values, shapes)


def take(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def assert_close(found, expected):
    """Equal to float32 rounding, relative to the largest value of each array."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * np.abs(b).max())


@pytest.mark.parametrize(("name", "n"), [("lenet5", 61_706), ("fashion_cnn", 96_658)])
def test_parameter_counts_are_the_published_ones(name, n):
    assert flattened(make_model(name).prior).n_parameters == n


def test_batch_norm_adds_no_parameters():
    model = make_model("fashion_cnn", reference=jnp.zeros((4, 28, 28), jnp.uint8))
    assert flattened(model.prior).n_parameters == 96_658


@pytest.mark.parametrize("channels", [1, 8], ids=["few-channels", "many-channels"])
@pytest.mark.parametrize(
    ("layer", "plain_pool"),
    [
        (ConvTanhMean(4, 5, padding=2), nn.avg_pool),
        (ConvTanhMean(4, 5, padding=0), nn.avg_pool),
        (ConvMaxTanh(4, 3, padding=1), nn.max_pool),
    ],
    ids=["5-same-mean", "5-valid-mean", "3-same-max"],
)
def test_convolution_and_pooling_equal_plain_ones_in_value_and_gradients(channels, layer, plain_pool):
    size, padding = layer.kernel_size, layer.padding
    rng = np.random.default_rng(size + channels)
    images = jnp.asarray(rng.normal(size=(3, 8, 12, channels)), jnp.float32)
    kernel = rng.normal(size=(size, size, channels, 4)) / math.sqrt(channels)
    parameters = jax.tree.map(jnp.float32, {"kernel": kernel, "bias": rng.normal(size=4)})
    conv = nn.Conv(4, (size, size), padding="SAME" if padding else "VALID")
    shape = (3, 4, 6, 4) if padding else (3, 2, 4, 4)
    weights = jnp.asarray(rng.normal(size=shape), jnp.float32)

    def loss(apply):
        def weighted(parameters, images):
            outputs = apply(parameters, images)
            return jnp.sum(outputs * weights), outputs

        return jax.jit(jax.grad(weighted, argnums=(0, 1), has_aux=True))(parameters, images)

    found = loss(lambda p, x: layer.apply({"params": p}, x))
    expected = loss(lambda p, x: plain_pool(jnp.tanh(conv.apply({"params": p}, x)), (2, 2), (2, 2)))
    assert found[1].shape == shape
    assert_close(found, expected)


@pytest.mark.parametrize("name", MODELS)
def test_curvature_is_that_of_a_plain_network(name):
    particle, direction = (take(some_particles(name, 2), i) for i in (0, 1))

    def curvature(network, images):
        def loss(parameters):
            return jnp.sum(jnp.sin(network.apply({"params": parameters}, images)))

        return jax.jit(lambda p, v: jax.jvp(jax.grad(loss), (p,), (v,))[1])(particle, direction)

    assert_close(curvature(MODELS[name](), jnp.asarray(IMAGES)), curvature(PLAIN[name](), PIXELS))


def test_equal_numbers_in_a_tile_share_one_gradient():
    tiles = jnp.asarray([[[1.0], [3.0], [3.0], [2.0]], [[0.0], [0.0], [0.0], [0.0]]])
    gradient = jax.grad(lambda t: jnp.sum(tile_max(t) * jnp.asarray([[5.0], [7.0]])))(tiles)
    np.testing.assert_array_equal(gradient[..., 0], [[0, 2.5, 2.5, 0], [1.75, 1.75, 1.75, 1.75]])


@pytest.fixture(scope="module", params=list(MODELS))
def pair(request):
    """Gradient-and-logits of a network and of its plain twin, and particles to try them on."""
    name = request.param
    weights = jnp.asarray(RNG.normal(size=(len(IMAGES), 10)), jnp.float32)

    def differentiated(network, images):
        def weighted(parameters):
            logits = network.apply({"params": parameters}, images)
            return jnp.sum(logits * weights), logits

        return jax.grad(weighted, has_aux=True)

    ours = differentiated(MODELS[name](), jnp.asarray(IMAGES))
    return ours, jax.jit(differentiated(PLAIN[name](), PIXELS)), some_particles(name, N_PARTICLES)


def test_logits_and_gradients_equal_those_of_a_plain_network(pair):
    ours, plain, particles = pair
    assert_close(jax.jit(ours)(take(particles, 0)), plain(take(particles, 0)))


def test_mapped_over_particles_each_gets_its_own_logits_and_gradients(pair):
    ours, plain, particles = pair
    found = jax.jit(jax.vmap(ours))(particles)
    for i in range(N_PARTICLES):
        assert_close(take(found, i), plain(take(particles, i)))


def test_pixels_are_scaled_to_the_unit_interval():
    # One path through LeNet-5 whose weights are 1: the logit is tanh four times over.
    network = jax.tree.map(np.zeros_like, take(some_particles("lenet5", 1), 0))
    for layer in ("conv1", "conv2"):
        network[layer]["kernel"][2, 2, 0, 0] = 1
    network["dense1"]["kernel"][(2 * 5 + 2) * 16, 0] = 1
    for layer in ("dense2", "dense3"):
        network[layer]["kernel"][0, 0] = 1
    images = np.repeat(np.array([0, 51, 255], np.uint8), 28 * 28).reshape(3, 28, 28)
    logits = jax.jit(make_model("lenet5").predict)(network, images)
    expected = np.tanh(np.tanh(np.tanh(np.tanh([0, 0.2, 1]))))
    np.testing.assert_allclose(logits, np.outer(expected, np.eye(10)[0]), rtol=1e-5)


class Linear(nn.Module):
    @nn.compact
    def __call__(self, images):
        return nn.Dense(10)(images.reshape(len(images), -1) / 255)


def test_log_likelihood_is_the_log_probability_of_each_images_label():
    kernel, bias = RNG.normal(size=(784, 10)) / 28, RNG.normal(size=10)
    labels = np.array([3, 0, 9, 9, 5], np.uint8)
    logits = IMAGES.reshape(5, 784) / 255 @ kernel + bias
    expected = logits[range(5), labels] - np.log(np.exp(logits).sum(axis=1))
    parameters = {"Dense_0": {"kernel": jnp.float32(kernel), "bias": jnp.float32(bias)}}
    found = jax.jit(from_flax(Linear(), IMAGES, categorical(), gaussian()).log_likelihood)(
        parameters, IMAGES, labels
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_flat_prior_has_one_scale_for_every_weight_and_bias(name):
    prior = make_model(name, 0.1).prior
    drawn = jax.jit(prior.sample)(jax.random.key(0))
    for leaf in jax.tree.leaves(drawn):
        # 4.5 standard errors of a standard deviation; of eight numbers at least.
        assert np.std(leaf) == pytest.approx(0.1, rel=4.5 / math.sqrt(2 * leaf.size))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, drawn)
    squares = sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(drawn))
    assert float(prior.log_ratio(doubled, drawn)) == pytest.approx(-3 * squares / 0.02, rel=1e-4)


@pytest.mark.parametrize("name", FAN_IN)
def test_prior_scale_is_one_over_root_fan_in_for_kernels_and_biases(name):
    sample = make_model(name, "fan_in").prior.sample
    particles = jax.jit(jax.vmap(sample))(jax.random.split(jax.random.key(8), 60))
    assert set(particles) == set(FAN_IN[name])
    for layer, fan_in in FAN_IN[name].items():
        for leaf in ("kernel", "bias"):
            values = np.asarray(particles[layer][leaf], float) * math.sqrt(fan_in)
            assert abs(values.mean()) < 5 / math.sqrt(values.size), (layer, leaf)
            assert abs((values**2).mean() - 1) < 5 * math.sqrt(2 / values.size), (layer, leaf)


@pytest.fixture(scope="module")
def normalised():
    """Batch-normalised logits of images, with statistics of their own batch and of a reference."""
    network, parameters = MODELS["fashion_cnn"](batch_norm=True), take(some_particles("fashion_cnn", 1), 0)
    reference = jnp.asarray(RNG.integers(0, 200, (4, 28, 28), dtype=np.uint8))
    by_batch = jax.jit(lambda parameters, x: network.apply({"params": parameters}, x))
    return by_batch, jax.jit(make_model("fashion_cnn", reference=reference).predict), parameters


def test_batch_norm_is_that_of_a_plain_network_with_the_batchs_own_statistics(normalised):
    by_batch, _, parameters = normalised
    plain = jax.jit(PlainFashionCNN(batch_norm=True).apply)({"params": parameters}, PIXELS)
    assert_close(by_batch(parameters, IMAGES), plain)
    by_itself = make_model("fashion_cnn", reference=jnp.asarray(IMAGES)).predict
    assert_close(jax.jit(by_itself)(parameters, IMAGES), plain)


def test_batch_norm_removes_scale_and_shift_of_each_channel(normalised):
    by_batch, _, parameters = normalised
    scale = np.linspace(3, 9, 8, dtype=np.float32)
    conv1 = {"kernel": parameters["conv1"]["kernel"] * scale, "bias": parameters["conv1"]["bias"] - scale}
    changed = by_batch({**parameters, "conv1": conv1}, IMAGES)
    np.testing.assert_allclose(changed, by_batch(parameters, IMAGES), atol=5e-3)


def test_batch_norm_uses_only_the_reference_where_there_is_one(normalised):
    by_batch, by_reference, parameters = normalised
    others = np.concatenate([IMAGES[:1], IMAGES[1:] // 4])
    assert_close(by_reference(parameters, others)[0], by_reference(parameters, IMAGES)[0])
    change = by_batch(parameters, others)[0] - by_batch(parameters, IMAGES)[0]
    assert np.abs(change).max() > 0.05
