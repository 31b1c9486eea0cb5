"""Monte Carlo methods that do not depend on this package: what `write_reference_posteriors.py` compares by.

Importance sampling and bridge sampling with a Student t at the mode, NUTS (BlackJAX), and the evidence from a
ladder of tempered posteriors. All in double precision; parameters are flat vectors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.diagnostics import effective_sample_size, potential_scale_reduction
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t

LogDensity = Callable[[Any], Any]
Vectors = np.ndarray


class Mode(NamedTuple):
    """Where a log-density is highest, its value there, and the inverse of its negative Hessian."""

    position: np.ndarray
    log_density: float
    covariance: np.ndarray

    def laplace(self) -> float:
        """Log of the integral under the Gaussian approximation at the mode."""
        return float(self.log_density + 0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1])


def find_mode(log_density: LogDensity, start: Vectors) -> Mode:
    """Maximise by Newton's method in a trust region."""
    gradient, hessian = jax.jit(jax.grad(log_density)), jax.jit(jax.hessian(log_density))
    found = minimize(
        lambda p: -float(log_density(p)),
        start,
        method="trust-exact",
        jac=lambda p: -np.asarray(gradient(p)),
        hess=lambda p: -np.asarray(hessian(p)),
        options={"gtol": 1e-8},
    )
    assert found.success, found.message
    return Mode(found.x, -found.fun, np.linalg.inv(-np.asarray(hessian(found.x))))


class Weighted(NamedTuple):
    """Importance samples with normalised weights, the log evidence they give and its standard error."""

    draws: Vectors
    weights: np.ndarray
    log_evidence: float
    log_evidence_se: float
    ess: float


def importance_sampling(log_density: LogDensity, mode: Mode, n: int, seed: int, df: float = 8) -> Weighted:
    """Importance sampling from a Student t at the mode, with `df` degrees of freedom."""
    proposal = multivariate_t(mode.position, mode.covariance, df=df, seed=seed)
    draws = proposal.rvs(n)
    log_weights = evaluate(log_density, draws) - proposal.logpdf(draws)
    log_mean = float(logsumexp(log_weights) - np.log(n))
    ratio = np.exp(log_weights - log_mean)
    se = float(ratio.std(ddof=1) / np.sqrt(n))
    return Weighted(draws, ratio / n, log_mean, se, float(n / np.mean(ratio**2)))


def bridge_sampling(log_density: LogDensity, chains: Vectors, seed: int) -> tuple[float, float]:
    """Log evidence by the optimal bridge (Meng and Wong 1996) from a Gaussian, and its standard error.

    The Gaussian is fitted to half of each chain and the other half is bridged (Overstall and Forster 2010).
    The error is that of a mean over chains, each bridged alone.
    """
    half = chains.shape[1] // 2
    fitted = chains[:, :half].reshape(-1, chains.shape[-1])
    proposal = multivariate_normal(fitted.mean(axis=0), np.cov(fitted.T), seed=seed)
    found = []
    for chain in chains[:, half:]:
        proposed = proposal.rvs(len(chain))
        forward, backward = (evaluate(log_density, at) - proposal.logpdf(at) for at in (proposed, chain))
        log_values = np.stack([np.zeros(2 * len(chain)), np.concatenate([forward, backward])])
        found.append(mbar(log_values, np.array([len(chain), len(chain)]))[1])
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))


def evaluate(log_density: LogDensity, draws: Vectors) -> np.ndarray:
    """Log-density at each draw."""
    return np.asarray(jax.jit(lambda at: jax.lax.map(log_density, at, batch_size=1_000))(jnp.asarray(draws)))


class Chains(NamedTuple):
    """A statistic at each draw of each chain, leapfrog steps per draw, and how many draws diverged."""

    values: Any
    n_leapfrog: float
    n_divergent: int


def nuts(
    log_density: Callable[[Any, Any], Any],
    betas: np.ndarray,
    starts: Vectors,
    statistic: Callable[[Any], Any],
    n_warmup: int,
    n_draws: int,
    seed: int,
) -> Chains:
    """Chains on ``log_density(beta, .)`` from each row of `starts[i]`, for each `betas[i]`.

    Step size and diagonal metric are adapted in each chain. The values' first axes are beta, chain, draw.
    """

    def chain(key: Any, beta: Any, start: Any) -> Any:
        def target(position: Any) -> Any:
            return log_density(beta, position)

        key_warmup, key_draws = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, target, target_acceptance_rate=0.9)
        (state, settings), _ = warmup.run(key_warmup, start, n_warmup)
        kernel = blackjax.nuts(target, **settings)

        def step(state: Any, key: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, (statistic(state.position), info.num_integration_steps, info.is_divergent)

        return jax.lax.scan(step, state, jax.random.split(key_draws, n_draws))[1]

    def chains(lane: Any) -> Any:
        keys, beta, starts = lane
        return jax.vmap(chain, (0, None, 0))(keys, beta, starts)

    keys = jax.random.split(jax.random.key(seed), starts.shape[:2])
    lanes = keys, jnp.asarray(betas), jnp.asarray(starts)
    values, n_leapfrog, divergent = jax.jit(lambda lanes: jax.lax.map(chains, lanes))(lanes)
    return Chains(jax.tree.map(np.asarray, values), float(n_leapfrog.mean()), int(divergent.sum()))


def diagnose(chains: Vectors) -> dict[str, float]:
    """Largest split R-hat, smallest effective sample size of the values and of their squared deviations."""
    n = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :n], chains[:, -n:]])
    squares = (chains - chains.mean(axis=(0, 1))) ** 2
    ess = [np.asarray(effective_sample_size(jnp.asarray(each))) for each in (chains, squares)]
    r_hat = np.asarray(potential_scale_reduction(jnp.asarray(halves)))
    return {
        "r_hat_max": float(r_hat.max()),
        "ess_min": float(ess[0].min()),
        "ess_sd_min": float(ess[1].min()),
    }


def mbar(log_values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Log normalising constants of K densities, up to the first (Shirts and Chodera 2008).

    `log_values[k, n]` is the unnormalised log-density k at pooled draw n, and `counts[k]` draws are of
    density k.
    """
    log_constants = np.zeros(len(counts))
    for _ in range(100_000):
        log_mixture = logsumexp(log_values + (np.log(counts) - log_constants)[:, None], axis=0)
        updated = logsumexp(log_values - log_mixture, axis=1)
        updated -= updated[0]
        change = np.abs(updated - log_constants).max()
        log_constants = updated
        if change < 1e-9:
            return log_constants
    raise RuntimeError("the equations of the normalising constants did not converge: add temperatures")


class Ladder(NamedTuple):
    """Log evidence by several estimators over one ladder of temperatures."""

    bridge: float
    forward: float
    backward: float
    thermodynamic: float


def ladder_evidence(betas: np.ndarray, log_likelihood: list[np.ndarray]) -> Ladder:
    """Log evidence from draws of the log-likelihood at each beta, which rises from 0 (the prior) to 1.

    The bridge is Bennett's between neighbours. Thermodynamic integration is the trapezoid rule, corrected by
    the variances, which are the derivatives of its integrand (Friel, Hurn and Wyse 2014).
    """
    steps = np.diff(betas)
    pairs = list(zip(steps, log_likelihood, log_likelihood[1:], strict=False))
    bridge = sum(
        mbar(np.stack([0 * pooled, step * pooled]), np.array([len(low), len(high)]))[1]
        for step, low, high in pairs
        for pooled in [np.concatenate([low, high])]
    )
    forward = sum(logsumexp(step * low) - np.log(len(low)) for step, low, _ in pairs)
    backward = sum(np.log(len(high)) - logsumexp(-step * high) for step, _, high in pairs)
    mean, variance = (np.array([f(each) for each in log_likelihood]) for f in (np.mean, np.var))
    corrected = steps * (mean[1:] + mean[:-1]) / 2 - steps**2 * np.diff(variance) / 12
    return Ladder(float(bridge), float(forward), float(backward), float(corrected.sum()))
