"""SGHMC samples the posterior: mean and standard deviation of a conjugate regression."""

import jax.numpy as jnp
import numpy as np
import pytest

from smcda import Model, likelihoods, priors
from smcda.baselines import SGHMCConfig, sghmc
from smcda.errors import BadInput, Diverged

RNG = np.random.default_rng(2)
N, NOISE, CHAINS = 40, 0.8, 500
SCALE = np.array([0.5, 0.7, 2.0], np.float32)
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = (X @ [0.8, -0.5, 0.4] + NOISE * RNG.normal(size=N)).astype(np.float32)
MODEL = Model(
    lambda p, x: jnp.sum(x * p["slope"], axis=1),
    likelihoods.gaussian(scale=NOISE),
    {"slope": priors.normal(np.zeros(3), SCALE)},
)


def exact():
    x, y = X.astype(float), Y.astype(float)
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.diag(SCALE**-2.0))
    return covariance @ x.T @ y / NOISE**2, np.sqrt(np.diag(covariance))


def config(**changes):
    # All data in every step, and a step so small that its error is far below the Monte Carlo noise.
    given = {"particles": CHAINS, "chains": CHAINS, "cycle_epochs": 300, "learning_rate": (0.05,)}
    return SGHMCConfig(**given | {"batch_size": N, "validation": 0.0, "start": "prior"} | changes)


def deviations(result):
    """Mean and standard deviation, each in standard errors from the exact one; samples are independent."""
    mean, sd = exact()
    slope, n = np.asarray(result.params["slope"], float), len(result.weights)
    return (slope.mean(axis=0) - mean) / sd * np.sqrt(n), (slope.std(axis=0) / sd - 1) * np.sqrt(2 * n)


def test_with_all_data_and_small_steps_it_has_the_posteriors_mean_and_sd():
    of_mean, of_sd = deviations(sghmc(MODEL, (X, Y), config(), progress=False))
    assert np.all(np.abs(of_mean) < 4) and np.all(np.abs(of_sd) < 4)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.95])
def test_the_share_of_momentum_that_stays_does_not_change_the_posterior(momentum):
    changed = config(momentum=momentum, cycle_epochs=1_000 if momentum < 0.5 else 300)
    of_mean, of_sd = deviations(sghmc(MODEL, (X, Y), changed, progress=False))
    assert np.all(np.abs(of_mean) < 4) and np.all(np.abs(of_sd) < 4)


def test_every_cycle_keeps_a_sample_of_each_chain_and_costs_are_counted():
    given = config(particles=12, chains=4, cycle_epochs=5, batch_size=15)
    result = sghmc(MODEL, (X, Y), given, test=(X, Y), progress=False)
    slope = np.asarray(result.params["slope"])
    assert len(np.unique(slope, axis=0)) == 12
    assert result.metrics["gradient_evaluations"] == 4 * N * 5 * 3
    assert result.metrics["search_gradient_evaluations"] == 0
    tested = np.flatnonzero(~np.isnan(result.trace["test_log_likelihood"]))
    assert tested.tolist() == [4, 9, 14]
    assert result.trace["gradient_evaluations"].tolist() == [4 * N * (i + 1) for i in range(15)]


@pytest.mark.slow
def test_samples_of_several_cycles_are_of_the_posterior_too():
    result = sghmc(MODEL, (X, Y), config(particles=4 * CHAINS, cycle_epochs=150), progress=False)
    of_mean, of_sd = deviations(result)
    # Samples of one chain may be alike: then errors are at most twice as large.
    assert np.all(np.abs(of_mean) < 8) and np.all(np.abs(of_sd) < 8)


@pytest.mark.slow
def test_the_learning_rate_is_chosen_by_validation_and_one_that_diverges_is_not():
    given = config(learning_rate=(1e-6, 0.05, 1e6), validation=0.2, chains=50, particles=50, batch_size=10)
    result = sghmc(MODEL, (X, Y), given, progress=False)
    scores = {each["value"]: each["validation_log_likelihood"] for each in result.metrics["search"]}
    assert result.metrics["learning_rate"] == 0.05 and scores[1e6] is None and scores[1e-6] < scores[0.05]
    # 32 of 40 examples; the one that diverged was given up after its first epoch.
    assert result.metrics["search_gradient_evaluations"] == 50 * 32 * (300 + 300 + 1)
    assert result.metrics["search_likelihood_evaluations"] == 2 * 50 * 8
    assert result.diagnostics == []


def test_only_diverging_rates_are_an_error_that_says_so():
    with pytest.raises(Diverged, match=r"particles are not finite with learning_rate 1e\+06: lower it"):
        sghmc(MODEL, (X, Y), config(learning_rate=(1e6,), chains=4, particles=4), progress=False)
    with pytest.raises(Diverged, match=r"no learning_rate of 1e\+06, 1e\+07 has a finite validation"):
        given = config(learning_rate=(1e6, 1e7), chains=4, particles=4, validation=0.3)
        sghmc(MODEL, (X, Y), given, progress=False)


def test_the_same_seed_gives_the_same_samples_and_another_does_not():
    given = config(particles=8, chains=4, cycle_epochs=3, batch_size=7)
    one, same, other = (
        sghmc(MODEL, (X, Y), given, seed=s, progress=False).params["slope"] for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.any(np.asarray(one) == np.asarray(other))


def test_samples_must_divide_among_chains():
    with pytest.raises(BadInput, match=r"particles is 10, but must be a multiple of chains \(4\)"):
        SGHMCConfig(particles=10)
