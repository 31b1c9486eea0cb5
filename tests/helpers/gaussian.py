"""A posterior known in closed form: linear regression with a Gaussian prior and known noise.

Inputs are correlated and the data are sorted by their first input, so that the first minibatches
misrepresent the rest: a sampler that does not correct for a moving target ends in the wrong place.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smcda.config import SamplerConfig
from smcda.models.base import Model
from smcda.models.priors import gaussian
from smcda.runs.loop import Run, run_block

N_DATA, NOISE = 30, 2.5
PRIOR_MEAN = np.array([0.3, -0.2, 0.0])
PRIOR_SCALE = np.array([0.5, 0.7, 0.6])


class Exact(NamedTuple):
    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float


def data():
    rng = np.random.default_rng(7)
    mixing = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.3, 0.5, 0.7]])
    x = rng.normal(size=(N_DATA, 3)) @ mixing.T
    x = x[np.argsort(x[:, 0])]
    y = x @ np.array([0.8, -0.5, 0.4]) + NOISE * rng.normal(size=N_DATA)
    return x.astype(np.float32), y.astype(np.float32)


def log_likelihood(parameters, x, y):
    # A sum, not a product: XLA multiplies thousands of tiny matrices slowly.
    residual = (y - jnp.sum(x * parameters["slope"], axis=1)) / NOISE
    return -0.5 * residual**2 - jnp.log(NOISE) - 0.5 * jnp.log(2 * jnp.pi)


def prior():
    return gaussian(
        {"slope": jnp.asarray(PRIOR_MEAN, jnp.float32)}, {"slope": jnp.asarray(PRIOR_SCALE, jnp.float32)}
    )


def exact() -> Exact:
    x, y = (part.astype(np.float64) for part in data())
    prior_precision = np.diag(PRIOR_SCALE**-2)
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + prior_precision)
    mean = covariance @ (x.T @ y / NOISE**2 + prior_precision @ PRIOR_MEAN)
    marginal = NOISE**2 * np.eye(N_DATA) + x @ np.diag(PRIOR_SCALE**2) @ x.T
    off = y - x @ PRIOR_MEAN
    log_determinant = np.linalg.slogdet(2 * np.pi * marginal)[1]
    return Exact(mean, covariance, -0.5 * (log_determinant + off @ np.linalg.solve(marginal, off)))


class Estimates(NamedTuple):
    """One entry per key."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: np.ndarray
    beta: np.ndarray
    batch_size: np.ndarray
    resampled: np.ndarray


def estimate(config: SamplerConfig, n_keys: int) -> Estimates:
    """Run the sampler under `n_keys` keys at once."""
    run = Run(Model.from_log_likelihood(log_likelihood, prior()), *data(), config, seed=0, shuffle=False)
    empty = run.to_save().trace

    def one_key(key):
        key_init, key_run = jax.random.split(key)
        state, _ = run.sampler.init(key_init, run.kernel, run.schedule.first, run.data, config.particles)
        until = jnp.asarray(config.iterations, jnp.int32)
        state, trace = run_block(run.kernel, key_run, state, empty, until, run.params, run.data)
        weights = jnp.exp(state.log_weights)
        mean = weights @ state.particles
        centred = state.particles - mean
        covariance = (weights[:, None] * centred).T @ centred
        return Estimates(
            mean,
            covariance,
            state.log_evidence,
            trace.beta[-1],
            trace.batch_size[-1],
            jnp.sum(trace.resampled),
        )

    keys = jax.random.split(jax.random.key(2024), n_keys)
    return jax.tree.map(lambda part: np.asarray(part, np.float64), jax.jit(jax.vmap(one_key))(keys))


class Errors(NamedTuple):
    """Distance from the truth of averages over keys, and their standard error, per quantity.

    Distances are in standard errors; standard errors of moments are relative to the posterior's own
    spread, that of the evidence to the evidence. Noise must be small too, or any distance would pass.
    """

    distance: dict[str, float]
    noise: dict[str, float]


def errors(config: SamplerConfig, n_keys: int) -> Errors:
    """Compare the sampler's averages over keys with the exact answers."""
    found, truth = estimate(config, n_keys), exact()
    upper = np.triu_indices(3)
    spread = np.sqrt(np.diag(truth.covariance))
    quantities = {
        "mean": (found.mean, truth.mean, spread),
        "covariance": (found.covariance[:, *upper], truth.covariance[upper], np.outer(spread, spread)[upper]),
        # The estimate is unbiased for the evidence, not for its logarithm.
        "evidence": (np.exp(found.log_evidence - truth.log_evidence), np.array(1.0), np.array(1.0)),
    }
    distance, noise = {}, {}
    for name, (values, expected, unit) in quantities.items():
        standard_error = values.std(axis=0, ddof=1) / np.sqrt(n_keys)
        distance[name] = float((np.abs(values.mean(axis=0) - expected) / standard_error).max())
        noise[name] = float((standard_error / unit).max())
    return Errors(distance, noise)
