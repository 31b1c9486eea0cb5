"""What adjusted moves learn, on targets where the right answer is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smcda.smc import adaptation
from smcda.smc.batches import Window
from smcda.smc.kernels import Position, leapfrog, metropolis
from smcda.smc.likelihood import LikelihoodSums
from smcda.smc.schedules.adaptive import AdaptiveParams, join, raise_beta

RNG = np.random.default_rng(0)


def gaussian(n_parameters, n_particles, width=1.0):
    """Particles of a Gaussian with a known covariance, `width` times too wide, and their scores."""
    root = RNG.normal(size=(n_parameters, n_parameters)) * np.geomspace(1, 10, n_parameters)
    covariance = root @ root.T / n_parameters
    particles = RNG.multivariate_normal(np.zeros(n_parameters), covariance, n_particles) * width
    scores = -particles @ np.linalg.inv(covariance)
    return covariance, *(jnp.asarray(values, jnp.float32) for values in (particles, scores))


@pytest.mark.parametrize("width", [0.05, 1.0, 3.0])
def test_the_metric_of_a_gaussian_is_its_covariance_however_wide_the_particles_lie(width):
    covariance, particles, scores = gaussian(5, 4_000, width)
    uniform = jnp.full(4_000, -jnp.log(4_000.0))
    factor = np.asarray(adaptation.fisher_metric(particles, scores, uniform, jnp.ones(5)), np.float64)
    whitened = np.linalg.solve(factor, np.linalg.solve(factor, covariance).T)
    # Where the particles' own covariance would be off by the square of the width.
    np.testing.assert_allclose(np.linalg.eigvalsh(whitened), 1, atol=0.1)


def test_in_high_dimension_the_metric_is_the_scale_of_each_coordinate():
    scale = np.geomspace(0.01, 10, 300).astype(np.float32)
    particles = jnp.asarray(RNG.normal(size=(16, 300)) * scale, jnp.float32)
    metric = adaptation.fisher_metric(
        particles, -particles / scale**2, jnp.full(16, -jnp.log(16.0)), jnp.ones(300)
    )
    np.testing.assert_allclose(metric, scale, rtol=1e-4)


def test_a_coordinate_without_spread_or_score_falls_back():
    particles = jnp.asarray(np.c_[np.zeros(50), RNG.normal(size=50), RNG.normal(size=50)], jnp.float32)
    scores = particles.at[:, 2].set(-4 * particles[:, 2]).at[:, 1].set(0.0)
    metric = adaptation.fisher_metric(particles, scores, jnp.full(50, -jnp.log(50.0)), jnp.full(3, 7.0))
    scale = adaptation.coordinate_scale(metric)
    assert scale[0] == pytest.approx(7)
    assert scale[1] == pytest.approx(float(jnp.std(particles[:, 1])), rel=0.05)
    assert scale[2] == pytest.approx(0.5, rel=0.05)


def test_dead_particles_have_no_say():
    covariance, particles, scores = gaussian(3, 2_000)
    log_weights = jnp.where(jnp.arange(2_000) < 1_000, -jnp.log(1_000.0), -jnp.inf)
    poisoned = scores.at[1_000:].set(jnp.nan)
    found = adaptation.fisher_metric(particles, poisoned, log_weights, jnp.ones(3))
    alone = adaptation.fisher_metric(particles[:1_000], scores[:1_000], log_weights[:1_000], jnp.ones(3))
    np.testing.assert_allclose(found, alone, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_beta_keeps_the_conditional_ess_at_its_share(share):
    values = jnp.asarray(RNG.normal(size=400) * 50 - 3e4, jnp.float32)
    uniform = jnp.full(400, -jnp.log(400.0))
    window = Window(jnp.int32(0), jnp.int32(10), jnp.int32(20), jnp.float32(0.25))
    beta = raise_beta(AdaptiveParams(jnp.int32(100), jnp.float32(share)), window, uniform, values)
    weights = np.exp((float(beta) - 0.25) * (np.asarray(values, float) - float(values.max())))
    assert weights.sum() ** 2 / (weights**2).sum() / 400 == pytest.approx(share, rel=0.01)


def test_beta_goes_to_one_where_it_can_and_never_stands_still():
    params = AdaptiveParams(jnp.int32(100), jnp.float32(0.5))
    uniform = jnp.full(8, -jnp.log(8.0))
    window = Window(jnp.int32(0), jnp.int32(0), jnp.int32(20), jnp.float32(0.5))
    assert raise_beta(params, window, uniform, jnp.linspace(-1, 1, 8)) == 1
    steep = jnp.asarray([0, -1e30, -1e30, -1e30, -1e30, -1e30, -1e30, -1e30], jnp.float32)
    assert 0.5 < raise_beta(params, window, uniform, steep) < 0.51
    outside = jnp.asarray([-1.0, -2.0, *[-jnp.inf] * 5, jnp.nan], jnp.float32)
    assert raise_beta(params, window, uniform, outside) == 1, "the share is of the particles inside"


def test_data_double_once_beta_is_one_and_stop_at_the_end():
    params = AdaptiveParams(jnp.int32(100), jnp.float32(0.5))
    window, sizes = Window(jnp.int32(0), jnp.int32(0), jnp.int32(15), jnp.float32(1)), []
    for _ in range(5):
        window = join(params, jnp.int32(0), window, jnp.ones(2), jnp.ones((2, 2)))
        sizes.append((int(window.split), int(window.stop), float(window.beta)))
        window = window._replace(beta=jnp.float32(1))
    assert sizes == [(15, 30, 0), (30, 60, 0), (60, 100, 0), (60, 100, 1), (60, 100, 1)]
    held = window._replace(stop=jnp.int32(40), beta=jnp.float32(0.7))
    assert join(params, jnp.int32(0), held, jnp.ones(2), jnp.ones((2, 2))) == held


def test_a_trajectory_is_a_quarter_period_and_no_longer_than_allowed():
    keys = jax.random.split(jax.random.key(0), 200)
    free = jax.vmap(lambda key: adaptation.n_leapfrog_steps(key, jnp.float32(0.05), jnp.int32(1_000)))(keys)
    length = np.asarray(free) * 0.05
    assert np.mean(length) == pytest.approx(np.pi / 2, rel=0.03)
    assert 0.75 * np.pi / 2 < length.min() < 0.85 * np.pi / 2
    short = jax.vmap(lambda key: adaptation.n_leapfrog_steps(key, jnp.float32(0.001), jnp.int32(10)))(keys)
    assert 5 <= short.min() < short.max() == 10
    assert adaptation.n_leapfrog_steps(keys[0], jnp.float32(50.0), jnp.int32(10)) == 1


def history(correlation_of, n_moves, max_moves=50):
    """Let statistics forget as told, one correlation per move; after which move they have settled."""
    n_particles = 4_000
    # Centred and orthogonal, so that correlations are exactly what they are told to be.
    draws = np.random.default_rng(6).normal(size=(n_particles, 4))
    basis = np.sqrt(n_particles) * np.linalg.qr(draws - draws.mean(axis=0))[0]
    particles, other = (jnp.asarray(part, jnp.float32) for part in (basis[:, :2], basis[:, 2:]))
    state = adaptation.start(particles, -particles, particles[:, 0])._replace(
        is_settled=jnp.asarray(False), n_moves=jnp.int32(0)
    )
    for move in range(1, n_moves + 1):
        c = correlation_of(move)
        moved = c * particles + np.sqrt(1 - c**2) * other
        now = adaptation.statistics(moved, moved[:, 0], state.metric)
        state = adaptation.after_move(
            state, now, jnp.float32(0.8), 0.8, jnp.asarray(False), jnp.int32(max_moves), jnp.int32(5)
        )
        if state.is_settled:
            return move
    return None


def test_particles_have_settled_when_they_have_forgotten_or_can_forget_no_more():
    assert history(lambda move: 0.1, 20) == adaptation.MIN_MOVES
    assert history(lambda move: 0.8**move, 20) == 6, "slow, but falling: 0.8^6 is near a quarter"
    assert history(lambda move: 0.9 if move < 20 else 0.0, 40) == 4, "two modes: no more to forget"
    assert 40 <= history(lambda move: 0.97**move, 60) <= 47, "diffusion is not mistaken for a plateau"
    assert history(lambda move: 0.995**move, 60, max_moves=12) == 12, "the cap"


@pytest.mark.parametrize("n_parameters", [3, 200])
@pytest.mark.parametrize("when", ["then", "now", "both"])
def test_copies_of_one_particle_have_forgotten_nothing(when, n_parameters):
    n_particles = 5
    spread = jnp.asarray(RNG.normal(size=(n_particles, n_parameters)), jnp.float32)
    copies = jnp.broadcast_to(spread[:1], spread.shape)
    then, now = {"then": (copies, spread), "now": (spread, copies), "both": (copies, copies)}[when]
    state = adaptation.start(then, -then, then[:, 0])
    statistics = adaptation.statistics(now, now[:, 0], state.metric)
    settled = []
    for _ in range(8):
        args = (jnp.float32(0.0), 0.8, jnp.asarray(False), jnp.int32(7), jnp.int32(5))
        state = adaptation.after_move(state, statistics, *args)
        settled.append(bool(state.is_settled))
    assert settled == [False] * 6 + [True] * 2, "not before the cap"
    assert state.correlation == 1


def test_a_likelihood_that_all_particles_share_does_not_keep_them_moving():
    particles, other = (jnp.asarray(RNG.normal(size=(400, 2)), jnp.float32) for _ in range(2))
    flat = jnp.full(400, -7.3)
    state = adaptation.start(particles, -particles, flat)
    for _ in range(adaptation.MIN_MOVES):
        now = adaptation.statistics(other, flat, state.metric)
        args = (jnp.float32(0.8), 0.8, jnp.asarray(False), jnp.int32(50), jnp.int32(5))
        state = adaptation.after_move(state, now, *args)
    assert state.is_settled


def test_the_metropolis_test_keeps_a_gaussian_and_refuses_what_is_not_finite():
    n = 20_000
    start = jax.random.normal(jax.random.key(0), (n, 2))

    def evaluate(particles):
        return Position(particles, LikelihoodSums(jnp.zeros((2, n)), jnp.zeros((2, n, 2))), -particles)

    before = evaluate(start)
    after, ratio = leapfrog(jax.random.key(1), before, evaluate, jnp.float32(1.6), jnp.int32(1))
    log_ratio = jnp.sum(before.particles**2 - after.particles**2, axis=1) / 2 + ratio
    moved, probability = metropolis(jax.random.key(2), before, after, log_ratio.at[0].set(jnp.nan))
    assert probability[0] == 0 and jnp.all(moved.particles[0] == start[0])
    assert 0.3 < probability.mean() < 0.95
    # Five standard errors; without the test the variance would be off by a quarter and more.
    assert float(jnp.var(moved.particles)) == pytest.approx(1, abs=5 * np.sqrt(2 / (2 * n)))
    assert abs(float(jnp.var(after.particles)) - 1) > 0.1
