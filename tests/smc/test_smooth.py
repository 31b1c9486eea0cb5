"""SDA's beta against sequences worked by hand from given log-likelihoods."""

import jax.numpy as jnp
import numpy as np
import pytest

from smcda.smc.schedules import ScheduleArgs
from smcda.smc.schedules.smooth import entropy_rate, smooth_data_annealing

ARGS = ScheduleArgs(iterations=20, n_data=25, batch_size=10, initial_batch=12)
WEIGHTS = jnp.array([0.5, 0.25, 0.25])


def advance(window, old, new, args=ARGS):
    schedule = smooth_data_annealing(args)
    sums = jnp.array([old, new], jnp.float32)
    return schedule.next_window(schedule.params, jnp.asarray(0), window, WEIGHTS, sums)


def ranges(window):
    return int(window.start), int(window.split), int(window.stop)


def test_the_entropy_rate_is_the_weighted_variance_plus_covariance():
    # New: mean -2.5, deviations 0.5, 0.5, -1.5; variance (0.5 + 0.25) 0.25 + 0.25 2.25 = 0.75.
    new = [-2.0, -2.0, -4.0]
    assert float(entropy_rate(WEIGHTS, jnp.array([[0.0, 0.0, 0.0], new]))) == pytest.approx(0.75)
    # Old: mean -8, deviations -2, 4, 0; covariance 0.5 (-2)(0.5) + 0.25 (4)(0.5) + 0 = 0.
    assert float(entropy_rate(WEIGHTS, jnp.array([[-10.0, -4.0, -8.0], new]))) == pytest.approx(0.75)
    # Old: mean -7, deviations 1, 3, -5; covariance 0.25 + 0.375 + 1.875 = 2.5.
    assert float(entropy_rate(WEIGHTS, jnp.array([[-6.0, -4.0, -12.0], new]))) == pytest.approx(3.25)
    # The same, mirrored: the sum 0.75 - 2.5 is negative, and its size is what counts.
    assert float(entropy_rate(WEIGHTS, jnp.array([[6.0, 4.0, 12.0], new]))) == pytest.approx(1.75)


def test_beta_follows_a_sequence_worked_by_hand():
    window = smooth_data_annealing(ARGS).first
    assert (ranges(window), float(window.beta)) == ((0, 0, 12), 0.0)

    # The first C examples: variance 4 (deviations 2, -2, -2), so beta goes 0, 1/4, 1/2.
    for expected in (0.25, 0.5):
        window = advance(window, [0, 0, 0], [4, 0, 0])
        assert (ranges(window), float(window.beta)) == ((0, 0, 12), pytest.approx(expected))
    # Variance 1.5625 gives 1/2 + 0.64, clipped to 1.
    window = advance(window, [0, 0, 0], [2.5, 0, 0])
    assert (ranges(window), float(window.beta)) == ((0, 0, 12), 1.0)
    # Now kappa more join, at 0.1, whatever the moments are.
    window = advance(window, [0, 0, 0], [9, 0, 0])
    assert (ranges(window), float(window.beta)) == ((0, 12, 22), pytest.approx(0.1))
    # Variance 0.75 and covariance 2.5 (as above): 0.1 + 1/3.25.
    window = advance(window, [-6, -4, -12], [-2, -2, -4])
    assert float(window.beta) == pytest.approx(0.1 + 1 / 3.25)
    # Variance 0.75 and covariance -2.5: the sign of dS flips, so it is 1/1.75 more.
    window = advance(window, [6, 4, 12], [-2, -2, -4])
    assert float(window.beta) == pytest.approx(0.1 + 1 / 3.25 + 1 / 1.75)
    window = advance(window, [6, 4, 12], [-2, -2, -4])
    assert float(window.beta) == 1.0
    # The last minibatch is short: 3 of the 25 examples are left.
    window = advance(window, [6, 4, 12], [-2, -2, -4])
    assert (ranges(window), float(window.beta)) == ((0, 22, 25), pytest.approx(0.1))
    for _ in range(3):
        window = advance(window, [0, 0, 0], [0.1, 0, 0])
        assert (ranges(window), float(window.beta)) == ((0, 22, 25), 1.0)


def test_the_entropy_step_and_the_restart_are_settings():
    args = ARGS._replace(delta_entropy=2.0, beta_restart=0.3)
    window = advance(smooth_data_annealing(args).first, [0, 0, 0], [4, 0, 0], args)
    assert float(window.beta) == pytest.approx(0.5)
    window = advance(window._replace(beta=jnp.float32(1)), [0, 0, 0], [4, 0, 0], args)
    assert float(window.beta) == pytest.approx(0.3)


def test_dead_particles_do_not_enter_the_moments():
    weights = jnp.array([0.5, 0.5, 0.0])
    values = jnp.array([[0.0, 0.0, np.nan], [1.0, 3.0, np.nan]])
    assert float(entropy_rate(weights, values)) == pytest.approx(1.0)


def test_beta_jumps_to_one_when_a_single_particle_is_left():
    schedule = smooth_data_annealing(ARGS)
    one_left = jnp.array([0.0, 1.0, 0.0])
    window = schedule.next_window(schedule.params, jnp.asarray(0), schedule.first, one_left, jnp.ones((2, 3)))
    assert float(window.beta) == 1.0


def test_large_log_likelihoods_do_not_drown_their_variance():
    weights = jnp.full(2, 0.5)
    values = jnp.array([[0.0, 0.0], [-138_000.0, -138_002.0]])
    assert float(entropy_rate(weights, values)) == pytest.approx(1.0)


def test_at_most_one_minibatch_per_iteration_is_admitted():
    plan = smooth_data_annealing(ScheduleArgs(10, 100, 5, 5)).plan
    np.testing.assert_array_equal(plan.size, 5 * np.arange(1, 11))
