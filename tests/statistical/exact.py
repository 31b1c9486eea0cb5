"""Posterior moments and evidence in closed form or by quadrature, in NumPy and double precision.

Nothing here calls a problem's log-likelihood: the models are written a second time.
"""

from typing import NamedTuple

import numpy as np
from statistical import problems


class Truth(NamedTuple):
    """Mean and standard deviation per quantity, and the log evidence."""

    mean: dict[str, np.ndarray]
    sd: dict[str, np.ndarray]
    log_evidence: float


def linear(name):
    """Linear regression, noise and prior of standard deviation 1: N(S X'y, S), S = (X'X + I)^-1."""
    x, y = (part.astype(np.float64) for part in problems.PROBLEMS[name].data())
    covariance = np.linalg.inv(x.T @ x + np.eye(x.shape[1]))
    log_evidence = log_normal(y, np.zeros(len(y)), np.eye(len(y)) + x @ x.T)
    return Truth({"slope": covariance @ x.T @ y}, {"slope": np.sqrt(np.diag(covariance))}, log_evidence)


def funnel(n_points=601):
    """Eight schools: theta is Gaussian given (mu, log tau), over which the trapezoid rule integrates."""
    x, y = (part.astype(np.float64) for part in problems.schools_data())
    reach = np.linspace(-9, 9, n_points)
    mu = (problems.MU_SCALE * reach)[:, None, None]
    log_tau = (problems.LOG_TAU_MEAN + problems.LOG_TAU_SCALE * reach)[:, None]
    noise, spread = x[:, 1] ** 2, np.exp(2 * log_tau)
    log_density = np.sum(-0.5 * (y - mu) ** 2 / (noise + spread) - 0.5 * np.log(noise + spread), axis=-1)
    log_density -= 0.5 * len(y) * np.log(2 * np.pi) + 0.5 * (reach[:, None] ** 2 + reach**2)
    weights, log_mean = normalised(log_density)
    theta = (spread * y + noise * mu) / (noise + spread)
    mean, sd = moments(
        weights,
        {
            "log_tau": (log_tau[None], 0.0),
            "mu": (mu, 0.0),
            "theta": (theta, spread * noise / (noise + spread)),
        },
    )
    return Truth(mean, sd, log_mean + 2 * np.log(reach[1] - reach[0]) - np.log(2 * np.pi))


def two_modes(n_points=8_001):
    """Given theta this is linear regression on the slopes; the trapezoid rule integrates over theta."""
    x, y = (part.astype(np.float64) for part in problems.modes_data())
    theta = np.linspace(-8, 8, n_points)
    log_density, slope, variance = [], [], []
    for value in theta:
        inputs = x * [1.0, value]
        residual = y - value**2
        covariance = np.linalg.inv(inputs.T @ inputs + np.eye(2))
        slope.append(covariance @ inputs.T @ residual)
        variance.append(np.diag(covariance))
        # The marginal density of the residuals, by Woodbury's identity and the determinant lemma.
        squares = residual @ residual - slope[-1] @ (inputs.T @ residual)
        log_density.append(-0.5 * squares + 0.5 * np.linalg.slogdet(covariance)[1])
    prior = -0.5 * (theta - np.float32(problems.THETA_MEAN)) ** 2
    weights, log_mean = normalised(np.array(log_density) + prior)
    column = theta[:, None]
    # The step of `positive` costs no accuracy: there is no density left at 0.
    mean, sd = moments(
        weights,
        {
            "theta": (column, 0.0),
            "positive": ((column > 0) * 1.0, 0.0),
            "slope": (np.array(slope), np.array(variance)),
        },
    )
    constant = np.log(theta[1] - theta[0]) - 0.5 * (len(y) + 1) * np.log(2 * np.pi)
    return Truth(mean, sd, log_mean + constant)


EXACT = {
    "conjugate_3": lambda: linear("conjugate_3"),
    "conjugate_50": lambda: linear("conjugate_50"),
    "funnel": funnel,
    "two_modes": two_modes,
}


def log_normal(y, mean, covariance):
    off = y - mean
    log_determinant = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (log_determinant + off @ np.linalg.solve(covariance, off)))


def normalised(log_density):
    """Weights of grid points, and the logarithm of the sum of densities."""
    top = log_density.max()
    density = np.exp(log_density - top)
    return density / density.sum(), float(top + np.log(density.sum()))


def moments(weights, conditional):
    """Mean and standard deviation from those conditional on the grid point: (mean, variance) per quantity."""
    mean, sd = {}, {}
    weights = weights[..., None]
    axes = tuple(range(weights.ndim - 1))
    for name, (centre, variance) in conditional.items():
        mean[name] = np.sum(weights * centre, axis=axes)
        sd[name] = np.sqrt(np.sum(weights * (variance + (centre - mean[name]) ** 2), axis=axes))
    return mean, sd
