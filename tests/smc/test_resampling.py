"""Resampling: unbiased offspring with the noise each method promises, and weights that never become NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smcda.smc.resampling import RESAMPLERS, effective_sample_size, n_unique, reweight

J, N_KEYS = 8, 20_000
# Weights in 64ths, exact in float32; first, last and one in the middle are zero.
SIXTY_FOURTHS = np.array([0, 5, 21, 0, 8, 19, 11, 0])
EXPECTED = SIXTY_FOURTHS / 8  # J w = 0, 0.625, 2.625, 0, 1, 2.375, 1.375, 0
INF, NAN = float("inf"), float("nan")

# Variance of the offspring of particles 2 (J w = 2.625) and 4 (J w = 1), by hand.
VARIANCES = {
    "multinomial": (2.625 * 43 / 64, 7 / 8),  # J w (1 - w)
    # Strata 0..7 meet particle 2 in [0.625, 3.25) and particle 4 in [3.25, 4.25): sum of p (1 - p).
    "stratified": (0.375 * 0.625 + 0.25 * 0.75, 2 * 0.75 * 0.25),
    "systematic": (0.625 * 0.375, 0.0),  # one coin for the fraction
    "residual": (2 * 0.3125 * 0.6875, 0.0),  # two draws among rests 0.625, 0.625, 0.375, 0.375
}


@pytest.fixture(scope="module")
def offspring():
    """Offspring of each particle for many keys, by name of the resampler."""
    keys = jax.random.split(jax.random.key(3), N_KEYS)
    weights = jnp.asarray(SIXTY_FOURTHS / 64, jnp.float32)

    def count(resample):
        ancestors = np.asarray(jax.jit(jax.vmap(lambda key: resample(key, weights)))(keys))
        assert ancestors.shape == (N_KEYS, J) and ancestors.min() >= 0 and ancestors.max() < J
        return (ancestors[:, :, None] == np.arange(J)).sum(axis=1)

    return {name: count(resample) for name, resample in RESAMPLERS.items()}


def test_the_four_resamplers_are_those_tested_here():
    assert set(RESAMPLERS) == set(VARIANCES)


@pytest.mark.parametrize("name", VARIANCES)
def test_expected_offspring_is_particles_times_weight(offspring, name):
    counts = offspring[name]
    error = np.abs(counts.mean(axis=0) - EXPECTED)
    assert np.all(error <= 5 * counts.std(axis=0) / np.sqrt(N_KEYS)), error


@pytest.mark.parametrize("name", VARIANCES)
def test_the_noise_of_offspring_is_that_of_the_method(offspring, name):
    np.testing.assert_allclose(offspring[name][:, [2, 4]].var(axis=0), VARIANCES[name], rtol=0.06)


@pytest.mark.parametrize("name", VARIANCES)
def test_particles_of_weight_zero_are_never_drawn(offspring, name):
    assert offspring[name][:, SIXTY_FOURTHS == 0].max() == 0


def test_systematic_offspring_is_rounded_down_or_up(offspring):
    counts = offspring["systematic"]
    assert np.all((np.floor(EXPECTED) <= counts) & (counts <= np.ceil(EXPECTED)))


def test_stratified_offspring_is_less_than_two_away(offspring):
    # At least floor(J w) - 1 strata lie wholly inside a particle's stretch, at most ceil(J w) + 1 touch it.
    assert np.all(np.abs(offspring["stratified"] - EXPECTED) < 2)


def test_residual_keeps_whole_copies(offspring):
    assert np.all(offspring["residual"] >= np.floor(EXPECTED))


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("heir", [0, 3, 4])
def test_one_particle_with_all_weight_is_every_ancestor(name, heir):
    weights = jnp.zeros(5).at[heir].set(1.0)
    assert RESAMPLERS[name](jax.random.key(0), weights).tolist() == [heir] * 5


@pytest.mark.parametrize("name", ["systematic", "stratified", "residual"])
def test_equal_weights_give_everybody_one_offspring(name):
    ancestors = RESAMPLERS[name](jax.random.key(1), jnp.full(16, 1 / 16))
    assert sorted(ancestors.tolist()) == list(range(16))


@pytest.mark.parametrize("shift", [0.0, -1e4, 1e4])
def test_reweight_normalises_and_returns_the_log_mean_increment(shift):
    # 0.5, 0.25, 0.25 times 2, 4, 8 is 1, 1, 2: the mean is 4, the new weights are 1/4, 1/4, 1/2.
    old = jnp.log(jnp.array([0.5, 0.25, 0.25]))
    new, log_mean = reweight(old, jnp.log(jnp.array([2.0, 4.0, 8.0])) + shift)
    np.testing.assert_allclose(np.exp(new), [0.25, 0.25, 0.5], rtol=2e-3 if shift else 1e-6)
    np.testing.assert_allclose(log_mean, np.log(4) + shift, rtol=1e-6)


@pytest.mark.parametrize("increment", [NAN, INF, -INF])
@pytest.mark.parametrize("lost", [0, 2])
def test_an_increment_that_is_not_finite_takes_all_weight_away(increment, lost):
    old = jnp.log(jnp.array([0.2, 0.6, 0.2]))
    new, log_mean = reweight(old, jnp.zeros(3).at[lost].set(increment))
    expected = np.array([0.25, 0.75, 0.25])
    expected[lost] = 0
    assert new[lost] == -INF
    np.testing.assert_allclose(np.exp(new), expected, rtol=1e-6)
    np.testing.assert_allclose(log_mean, np.log(0.8), rtol=1e-6)


@pytest.mark.parametrize("increment", [0.0, 50.0, NAN, INF, -INF])
def test_a_dead_particle_stays_dead(increment):
    new, _ = reweight(jnp.array([-INF, 0.0]), jnp.array([increment, -1.0]))
    assert new.tolist() == [-INF, 0.0]


@pytest.mark.parametrize("increments", [[NAN, INF, -INF], [-INF] * 3])
def test_if_everybody_dies_all_is_minus_infinity_and_not_nan(increments):
    new, log_mean = reweight(jnp.log(jnp.array([0.5, 0.25, 0.25])), jnp.array(increments))
    assert new.tolist() == [-INF] * 3 and log_mean == -INF


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.25] * 4, 4.0),
        ([0.0, 1.0, 0.0], 1.0),
        ([0.5, 0.25, 0.25], 1 / 0.375),
        ([0.5, 0.5, 0.0], 2.0),
        ([0.0] * 3, 0.0),
    ],
)
def test_effective_sample_size_of_known_weights(weights, expected):
    np.testing.assert_allclose(effective_sample_size(jnp.log(jnp.array(weights))), expected, rtol=1e-6)


@pytest.mark.parametrize(("labels", "expected"), [([0, 0, 0], 1), ([2, 0, 2, 3, 3], 3), ([3, 1, 0, 2], 4)])
def test_n_unique_counts_different_labels(labels, expected):
    assert n_unique(jnp.array(labels)) == expected
