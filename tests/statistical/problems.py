"""Bayesian problems whose posterior and evidence are known by other means than this package's samplers.

What is known is in `reference.json`, written by ``python tools/write_reference_posteriors.py``.
All log-likelihoods and `log_prior` are normalised, so that the log evidence is that of a real model.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm

from smcda.models.priors import Prior, from_log_density, gaussian


class Problem(NamedTuple):
    """A model with its data, and the functionals of its posterior that are compared.

    `log_prior` is the normalised density of `prior`, which a reference needs and the sampler does not.
    `quantities` takes parameters with a leading particle axis and gives arrays of shape (particle, k).
    """

    log_likelihood: Callable[[Any, Any, Any], Any]
    prior: Prior
    log_prior: Callable[[Any], Any]
    data: Callable[[], tuple[np.ndarray, np.ndarray]]
    quantities: Callable[[Any], dict[str, Any]]
    n_parameters: int


def gaussian_problem(log_likelihood, scale, data, quantities, mean=None):
    """Problem with independent Gaussian priors; `scale` and `mean` (0 if not given) are pytrees alike."""
    scale = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), scale)
    mean = jax.tree.map(lambda s, m: np.full_like(s, m), scale, mean or jax.tree.map(np.zeros_like, scale))

    def log_prior(parameters):
        terms = jax.tree.map(lambda p, m, s: jnp.sum(norm.logpdf(p, m, s)), parameters, mean, scale)
        return jax.tree.reduce(jnp.add, terms)

    n_parameters = sum(leaf.size for leaf in jax.tree.leaves(scale))
    return Problem(log_likelihood, gaussian(mean, scale), log_prior, data, quantities, n_parameters)


def as_float32(x, y):
    return x.astype(np.float32), y.astype(np.float32)


def columns(*names):
    """Quantities that are the parameters themselves, a scalar one as a single column."""

    def quantities(parameters):
        return {name: parameters[name].reshape(len(parameters[name]), -1) for name in names}

    return quantities


# Linear regression with known noise: a Gaussian posterior.
LINEAR_NOISE = 1.0


def linear_log_likelihood(parameters, x, y):
    return norm.logpdf(y, x @ parameters["slope"], LINEAR_NOISE)


def linear_data(seed, n, mixing):
    """Inputs ``mixing @ z`` for white noise z, and outputs at a slope drawn from the prior."""

    def data():
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, len(mixing))) @ mixing.T
        slope = rng.normal(size=len(mixing))
        return as_float32(x, x @ slope + LINEAR_NOISE * rng.normal(size=n))

    return data


def linear_problem(data, n_parameters):
    return gaussian_problem(linear_log_likelihood, {"slope": np.ones(n_parameters)}, data, columns("slope"))


def uneven_mixing(n, correlation):
    """Neighbouring inputs correlated as in an AR(1) process, scales rising from 1/2 to 2."""
    index = np.arange(n)
    covariance = correlation ** np.abs(index[:, None] - index)
    return np.geomspace(0.5, 2, n)[:, None] * np.linalg.cholesky(covariance)


# Poisson regression: the example of the README.
def poisson_log_likelihood(parameters, x, y):
    log_rate = x @ parameters["slope"] + parameters["intercept"]
    return y * log_rate - jnp.exp(log_rate) - gammaln(y + 1.0)


def poisson_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000, 2)).astype(np.float32)
    return as_float32(x, rng.poisson(np.exp(x @ [0.5, -0.3] + 1.0)))


# Logistic regression on features that share a few factors, as measurements of one object do.
N_FEATURES, N_FACTORS, UNIQUE_SCALE = 20, 4, 0.3


def logistic_log_likelihood(parameters, x, y):
    logit = x @ parameters["slope"] + parameters["intercept"]
    return jax.nn.log_sigmoid((2 * y - 1) * logit)


def logistic_data():
    rng = np.random.default_rng(20)
    factors = rng.normal(size=(400, N_FACTORS)) @ rng.normal(size=(N_FACTORS, N_FEATURES))
    x = factors + UNIQUE_SCALE * rng.normal(size=factors.shape)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    logit = x @ rng.normal(size=N_FEATURES) - 0.5
    return as_float32(x, rng.uniform(size=400) < 1 / (1 + np.exp(-logit)))


# A network 1-16-1 with tanh; what is compared does not change when hidden units swap places or signs.
N_HIDDEN, NETWORK_NOISE = 16, 0.2
# The data leave a gap around 0 and end at -2 and 2: test inputs lie among them, in the gap and outside.
TEST_INPUTS = np.linspace(-3, 3, 8, dtype=np.float32)


def network(parameters, x):
    """Outputs at the inputs `x` of shape (n,)."""
    hidden, output = parameters["hidden"], parameters["output"]
    units = jnp.tanh(x[:, None] * hidden["kernel"] + hidden["bias"])
    return units @ output["kernel"] + output["bias"]


def network_log_likelihood(parameters, x, y):
    return norm.logpdf(y, network(parameters, x[:, 0]), NETWORK_NOISE)


def network_data():
    rng = np.random.default_rng(16)
    x = rng.uniform(0.5, 2, size=(60, 1)) * rng.choice([-1, 1], size=(60, 1))
    return as_float32(x, np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + NETWORK_NOISE * rng.normal(size=60))


def network_quantities(parameters):
    x, y = network_data()

    def log_likelihood(particle):
        return jnp.sum(network_log_likelihood(particle, x, y), keepdims=True)

    return {
        "function": jax.vmap(lambda particle: network(particle, TEST_INPUTS))(parameters),
        "log_likelihood": jax.vmap(log_likelihood)(parameters),
    }


NETWORK_PRIOR_SCALE = {
    "hidden": {"kernel": np.full(N_HIDDEN, 1.5), "bias": np.full(N_HIDDEN, 1.5)},
    "output": {"kernel": np.full(N_HIDDEN, 0.5), "bias": 1.0},
}

# Eight schools (Rubin 1981; Gelman et al., Bayesian Data Analysis, 3rd ed., table 5.2): estimated effects and
# their standard errors. Centred: the spread of theta is exp(log_tau), a funnel where log_tau is small.
EFFECTS = np.array([28, 8, -3, 7, -1, 1, 18, 12])
STANDARD_ERRORS = np.array([15, 10, 16, 11, 9, 11, 10, 18])
MU_SCALE, LOG_TAU_MEAN, LOG_TAU_SCALE = 5.0, float(np.log(5.0)), 1.0


def schools_log_likelihood(parameters, x, y):
    school, standard_error = x[:, 0].astype(int), x[:, 1]
    return norm.logpdf(y, parameters["theta"][school], standard_error)


def schools_data():
    return as_float32(np.column_stack([np.arange(8), STANDARD_ERRORS]), EFFECTS)


def schools_sample(key):
    z = jax.random.normal(key, (10,))
    log_tau, mu = LOG_TAU_MEAN + LOG_TAU_SCALE * z[0], MU_SCALE * z[1]
    return {"log_tau": log_tau, "mu": mu, "theta": mu + jnp.exp(log_tau) * z[2:]}


def schools_log_prior(parameters):
    log_tau, mu, theta = parameters["log_tau"], parameters["mu"], parameters["theta"]
    return (
        norm.logpdf(log_tau, LOG_TAU_MEAN, LOG_TAU_SCALE)
        + norm.logpdf(mu, 0.0, MU_SCALE)
        + jnp.sum(norm.logpdf(theta, mu, jnp.exp(log_tau)))
    )


# The data fix theta up to its sign, which the prior mean decides at odds of exp(2 * ROOT * mean) to 1.
ROOT, MODES_NOISE, POSITIVE = 2.0, 1.0, 0.7
THETA_MEAN = float(np.log(POSITIVE / (1 - POSITIVE)) / (2 * ROOT))


def modes_log_likelihood(parameters, x, y):
    theta, slope = parameters["theta"], parameters["slope"]
    return norm.logpdf(y, theta**2 + slope[0] * x[:, 0] + slope[1] * theta * x[:, 1], MODES_NOISE)


def modes_data():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    return as_float32(x, ROOT**2 + x @ [0.5, -0.8 * ROOT] + MODES_NOISE * rng.normal(size=60))


def modes_quantities(parameters):
    theta = parameters["theta"][:, None]
    return {"theta": theta, "positive": (theta > 0) * 1.0, "slope": parameters["slope"]}


PROBLEMS = {
    "conjugate_3": linear_problem(linear_data(3, 200, uneven_mixing(3, 0.6)), 3),
    "conjugate_50": linear_problem(linear_data(50, 500, uneven_mixing(50, 0.6)), 50),
    "poisson": gaussian_problem(
        poisson_log_likelihood,
        {"slope": np.ones(2), "intercept": 1.0},
        poisson_data,
        columns("slope", "intercept"),
    ),
    "logistic": gaussian_problem(
        logistic_log_likelihood,
        {"slope": np.ones(N_FEATURES), "intercept": 1.0},
        logistic_data,
        columns("slope", "intercept"),
    ),
    "neural_network": gaussian_problem(
        network_log_likelihood, NETWORK_PRIOR_SCALE, network_data, network_quantities
    ),
    "funnel": Problem(
        schools_log_likelihood,
        from_log_density(schools_sample, schools_log_prior),
        schools_log_prior,
        schools_data,
        columns("log_tau", "mu", "theta"),
        10,
    ),
    "two_modes": gaussian_problem(
        modes_log_likelihood,
        {"theta": 1.0, "slope": np.ones(2)},
        modes_data,
        modes_quantities,
        mean={"theta": THETA_MEAN, "slope": 0.0},
    ),
}
