r"""What the adaptive sampler costs on a logistic regression, against tempering, BlackJAX's SMC and NUTS.

Inputs and weights are standard normal, d = 20, the prior is N(0, I). The posterior is so nearly Gaussian that
the Laplace approximation is the reference: for the log evidence, and with its next term,

    E[theta] - mode = H^{-1} sum_n l'''_n x_n (x_n' H^{-1} x_n) / 2,

for the mean (Tierney and Kadane 1986), where l'''_n is the third derivative of an example's log-likelihood in
its logit. Without it the reference would be further off than the samplers.

Gradient evaluations are counted, seconds are read from a clock. An error of the mean is reached with
evaluations in proportion to 1 / error^2, so two samplers are compared by the product of evaluations and
squared error.
"""

import importlib.util
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smcda.bench import blackjax_runs
from smcda.bench.timing import Outcome, Sizes
from smcda.config import SamplerConfig
from smcda.models.priors import gaussian
from smcda.runs.run import sample

N_WEIGHTS = 20
NUTS_WARMUP, NUTS_DRAWS = 500, 500
FEW_STEPS, DEFAULT_STEPS = 3, 10
"""HMC steps per stage of BlackJAX's SMC: as many as ours makes at most targets, and its default."""

Figures = dict[str, Any]
Sampler = Callable[[int], Outcome]


class Regression(NamedTuple):
    """Data, and the posterior as the Laplace approximation has it."""

    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float


def log_likelihood(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Log-likelihood of each example; `y` is 0 or 1."""
    logit = x @ weights
    return y * logit - jax.nn.softplus(logit)


def make_regression(n_data: int) -> Regression:
    """Draw the data, find the mode by Newton's method, and expand around it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_data, N_WEIGHTS))
    y = rng.uniform(size=n_data) < 1 / (1 + np.exp(-x @ rng.normal(size=N_WEIGHTS)))
    x, y = (values.astype(np.float32).astype(np.float64) for values in (x, y))

    mode, hessian, p = np.zeros(N_WEIGHTS), np.eye(N_WEIGHTS), y
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ mode))
        hessian = (x.T * (p * (1 - p))) @ x + np.eye(N_WEIGHTS)
        mode = mode + np.linalg.solve(hessian, x.T @ (y - p) - mode)
    covariance = np.linalg.inv(hessian)
    third = -p * (1 - p) * (1 - 2 * p)
    shift = covariance @ (x.T @ (third * np.sum((x @ covariance) * x, axis=1))) / 2

    logit = x @ mode
    log_joint = np.sum(y * logit - np.logaddexp(0, logit)) - mode @ mode / 2
    log_evidence = log_joint - np.linalg.slogdet(hessian)[1] / 2
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Regression(x, y, mode + shift, np.sqrt(np.diag(covariance)), float(log_evidence))


def ours(regression: Regression, seed: int, **settings: Any) -> Outcome:
    """Call `sample` once."""
    prior = gaussian(np.zeros(N_WEIGHTS), 1.0)
    config = SamplerConfig(**settings)
    posterior = sample(log_likelihood, prior, regression.x, regression.y, config, seed=seed)
    evaluations = int(posterior.trace["gradient_evaluations"][-1])
    return Outcome(
        posterior.weights @ np.asarray(posterior.params),
        np.nan if posterior.log_evidence is None else posterior.log_evidence,
        evaluations / len(posterior.weights) / len(regression.x),
        float(posterior.trace["runtime_s"][-1]),
    )


def blackjax_samplers(regression: Regression, particles: int) -> dict[str, Sampler]:
    """Tempered SMC with few and with the default number of HMC steps, and NUTS."""
    x, y = jnp.asarray(regression.x), jnp.asarray(regression.y)

    def log_prior(weights: jax.Array) -> jax.Array:
        return -weights @ weights / 2

    def sum_log_likelihood(weights: jax.Array) -> jax.Array:
        return jnp.sum(log_likelihood(weights, x, y))

    def tempered(seed: int, hmc_steps: int) -> Outcome:
        key_draws, key = jax.random.split(jax.random.key(seed))
        draws = jax.random.normal(key_draws, (particles, N_WEIGHTS))
        return blackjax_runs.tempered_smc(log_prior, sum_log_likelihood, draws, key, hmc_steps)

    def nuts(seed: int) -> Outcome:
        def log_density(weights: jax.Array) -> jax.Array:
            return log_prior(weights) + sum_log_likelihood(weights)

        start, key = jnp.zeros(N_WEIGHTS), jax.random.key(seed)
        return blackjax_runs.nuts(log_density, start, key, NUTS_WARMUP, NUTS_DRAWS)

    return {
        "blackjax_smc": lambda seed: tempered(seed, FEW_STEPS),
        "blackjax_smc_default": lambda seed: tempered(seed, DEFAULT_STEPS),
        "blackjax_nuts": nuts,
    }


def summarise(outcomes: list[Outcome], regression: Regression) -> Figures:
    """Root-mean-square error over weights and seeds in posterior sds, mean count, median seconds."""
    errors = [(outcome.mean - regression.mean) / regression.sd for outcome in outcomes]
    evidence = [outcome.log_evidence - regression.log_evidence for outcome in outcomes]
    return {
        "seeds": len(outcomes),
        "error_of_mean": float(np.sqrt(np.mean(np.square(errors)))),
        "log_evidence_minus_laplace": [round(float(e), 3) for e in evidence if np.isfinite(e)],
        "gradients": float(np.mean([outcome.gradients for outcome in outcomes])),
        "seconds": median(outcome.seconds for outcome in outcomes),
    }


def at_equal_error(theirs: Figures, of: Figures, cost: str = "gradients") -> float:
    """Cost of one sampler over that of another, had both the same error of the mean."""
    ratio = theirs["error_of_mean"] / of["error_of_mean"]
    return theirs[cost] / of[cost] * ratio**2


def cost_of_adaptive(sizes: Sizes) -> Figures:
    """Evaluations, seconds and errors of every sampler, and the ratios; BlackJAX where it is installed."""
    runs: Figures = {}
    over_tempering: Figures = {}
    blackjax_smc: Figures = {}
    for n_data, particles in sizes.regressions:
        regression = make_regression(n_data)
        samplers: dict[str, Sampler] = {
            "adaptive": lambda seed, r=regression, j=particles: ours(r, seed, particles=j),
            "tempering": lambda seed, r=regression, j=particles: ours(
                r, seed, particles=j, batch_size=len(r.x)
            ),
        }
        if importlib.util.find_spec("blackjax") is not None:
            samplers |= blackjax_samplers(regression, particles)
        outcomes: dict[str, list[Outcome]] = {name: [] for name in samplers}
        for seed in range(sizes.seeds):
            for name, run in samplers.items():
                # Ten HMC steps per stage take minutes: once is enough to count them.
                if seed == 0 or name != "blackjax_smc_default":
                    outcomes[name].append(run(seed))
        found = {name: summarise(each, regression) for name, each in outcomes.items()}
        runs[str(n_data)] = {"particles": particles, "samplers": found}
        ratio = found["adaptive"]["gradients"] / found["tempering"]["gradients"]
        over_tempering[str(n_data)] = ratio
        if "blackjax_smc" in found:
            blackjax_smc[str(n_data)] = at_equal_error(found["blackjax_smc"], found["adaptive"])
    return {
        "adaptive": runs,
        "adaptive_over_tempering": over_tempering,
        "blackjax_smc_over_adaptive": blackjax_smc or None,
    }
