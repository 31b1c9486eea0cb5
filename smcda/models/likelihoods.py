r"""Likelihoods: what a model's outputs mean, the posterior predictive, and how good it is.

The predictive is the mixture of the particles' own predictions under the posterior weights,

    p(y | x) = sum_j w_j p(y | x, theta_j).

The device computes the mixture, example by example; that is little, so the metrics are then taken on the
host, in double precision.

| likelihood | outputs of the model | y | predictive | metrics |
| --- | --- | --- | --- | --- |
| `categorical` | logits (n, classes) | integers from 0 | probabilities | accuracy, log-likelihood, ECE, ... |
| `bernoulli` | logits (n,) | 0 or 1 | probability of 1 | the same |
| `gaussian` | means (n,) or (n, d) | real numbers | mean and sd | RMSE, log-likelihood, coverage |
| `poisson` | log-rates (n,) | counts | mean and sd | the same |
| `custom` | anything | anything | none | log-likelihood |

Outputs of shape (n, 1), as a last dense layer gives them, count as (n,), and so do such y.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, gammaln, ndtr
from jaxtyping import Array, Float

from smcda.errors import BadInput
from smcda.models.classes import mix_classes, score_classes
from smcda.models.priors import Prior, joint, normal
from smcda.models.uncertainty import Uncertainty, class_uncertainty

INTERVAL = 0.9
"""Probability of the central interval whose coverage is reported."""


@dataclasses.dataclass(frozen=True)
class Likelihood:
    """What the outputs of a model mean. `outputs` are those of one particle, or of all where it says so.

    Attributes:
        name: as the command line knows it.
        log_prob: ``(outputs, y)`` to the log-probability of each example.
        score: ``(outputs of all, log_weights, y)`` to what `metrics` needs of each example, on the device.
        metrics: ``(score, y)`` to the test metrics, on the host.
        headline: the metric that progress shows.
        predictive: ``(outputs of all, log_weights)`` to what `Result.predict` gives; None if there is none.
        check: ``(outputs, y)`` to a complaint if they do not fit, or None; of outputs only the shape counts.
        prior: of parameters of its own. Then `outputs` is a pair: the model's, and these.
        uncertainty: ``(outputs of all, log_weights)`` to how unsure the predictive is, or None.

    """

    name: str
    log_prob: Callable[[Any, Any], Array]
    score: Callable[[Any, Array, Any], Any]
    metrics: Callable[[Any, Any], dict[str, Any]]
    headline: str
    predictive: Callable[[Any, Array], Any] | None = None
    check: Callable[[Any, Any], str | None] = lambda outputs, y: None
    prior: Prior | None = None
    uncertainty: Callable[[Any, Array], Uncertainty] | None = None


class Prediction(NamedTuple):
    """Mean and standard deviation of the posterior predictive, for every example."""

    mean: np.ndarray | Array
    sd: np.ndarray | Array


def categorical() -> Likelihood:
    """Classes as integer labels from 0; outputs are logits."""

    def check(outputs: Any, y: Any) -> str | None:
        if complaint := _not_arrays(outputs, y):
            return complaint
        if outputs.ndim != 2 or outputs.shape[1] < 2:
            return f"outputs of shape {outputs.shape}, but needs logits of shape (examples, classes)"
        if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
            return f"y of type {y.dtype} and shape {y.shape}, but needs one integer label per example"
        if y.min() < 0 or y.max() >= outputs.shape[1]:
            return f"labels {y.min()} to {y.max()}, but {outputs.shape[1]} logits: labels count from 0"
        return None

    return Likelihood(
        "categorical",
        log_prob=categorical_log_prob,
        score=lambda outputs, log_weights, y: mix_classes(outputs, log_weights),
        metrics=score_classes,
        headline="test_accuracy",
        predictive=lambda outputs, log_weights: jnp.exp(mix_classes(outputs, log_weights).log_probabilities),
        check=check,
        uncertainty=class_uncertainty,
    )


def categorical_log_prob(logits: Float[Array, "example label"], y: Any) -> Float[Array, " example"]:
    """Log-probability of each example's class."""
    log_probabilities = jax.nn.log_softmax(jnp.asarray(logits))
    return jnp.take_along_axis(log_probabilities, y[:, None], axis=1)[:, 0]


def bernoulli() -> Likelihood:
    """Two classes, y = 0 or 1; outputs are the logits of y = 1."""

    def two(logits: Array) -> Array:
        logits = _column(logits)
        return jnp.stack([jnp.zeros_like(logits), logits], axis=-1)

    def of_all(outputs: Array, log_weights: Array) -> Any:
        return mix_classes(jax.vmap(two)(outputs), log_weights)

    def check(outputs: Any, y: Any) -> str | None:
        if complaint := _not_arrays(outputs, y):
            return complaint
        if not np.isin(y, (0, 1)).all():
            return f"y from {y.min()} to {y.max()}, but needs 0 or 1"
        return _shapes_differ(outputs, y, "logits")

    return Likelihood(
        "bernoulli",
        log_prob=lambda logits, y: categorical_log_prob(two(logits), _column(y).astype(jnp.int32)),
        score=lambda outputs, log_weights, y: of_all(outputs, log_weights),
        metrics=lambda score, y: score_classes(score, np.asarray(_column(y)).astype(int)),
        headline="test_accuracy",
        predictive=lambda outputs, log_weights: jnp.exp(of_all(outputs, log_weights).log_probabilities[:, 1]),
        check=check,
        uncertainty=lambda outputs, log_weights: class_uncertainty(jax.vmap(two)(outputs), log_weights),
    )


def gaussian(scale: float | None = None, log_scale_prior: Prior | None = None) -> Likelihood:
    """Real numbers with Gaussian noise of standard deviation `scale`; outputs are means.

    Without a scale it is learnt: its logarithm is one more parameter, ``log_scale``, with prior N(0, 1)
    unless another is given. That suits y of about unit variance.
    """
    if scale is not None and not (isinstance(scale, int | float | np.number) and 0 < scale < math.inf):
        raise BadInput(
            f"the scale of a gaussian likelihood is {scale!r}, but must be a number above 0 and finite"
        )
    learnt = scale is None
    known = None if scale is None else math.log(scale)

    def split(outputs: Any) -> tuple[Array, Any]:
        mean, log_scale = (outputs[0], outputs[1]["log_scale"]) if learnt else (outputs, known)
        return _column(mean), log_scale

    def log_prob(outputs: Any, y: Array) -> Array:
        mean, log_scale = split(outputs)
        z = (_column(y) - mean) * jnp.exp(-log_scale)
        each = -0.5 * z**2 - log_scale - 0.5 * math.log(2 * math.pi)
        return each.reshape(len(each), -1).sum(axis=1)

    def moments(outputs: Any) -> tuple[Array, Array]:
        mean, log_scale = split(outputs)
        return mean, jnp.full_like(mean, jnp.exp(2 * log_scale))

    def below(outputs: Any, y: Array) -> tuple[Array, Array]:
        mean, log_scale = split(outputs)
        probability = ndtr((_column(y) - mean) * jnp.exp(-log_scale))
        return probability, probability

    own = {"log_scale": normal(0.0, 1.0) if log_scale_prior is None else log_scale_prior} if learnt else None
    return _regression("gaussian", log_prob, moments, below, lambda y: None, own)


def poisson() -> Likelihood:
    """Counts; outputs are the logarithms of the rates."""

    def log_prob(log_rate: Array, y: Array) -> Array:
        log_rate, y = _column(log_rate), _column(y)
        return y * log_rate - jnp.exp(log_rate) - gammaln(y + 1.0)

    def moments(log_rate: Array) -> tuple[Array, Array]:
        rate = jnp.exp(_column(log_rate))
        return rate, rate

    def below(log_rate: Array, y: Array) -> tuple[Array, Array]:
        rate, y = jnp.exp(_column(log_rate)), _column(y).astype(jnp.float32)
        return jnp.where(y > 0, gammaincc(jnp.maximum(y, 1.0), rate), 0.0), gammaincc(y + 1, rate)

    def complain(y: np.ndarray) -> str | None:
        whole = (y >= 0).all() and (y == np.round(y)).all()
        return None if whole else f"y from {y.min()} to {y.max()}, but needs whole numbers of at least 0"

    return _regression("poisson", log_prob, moments, below, complain)


def custom(
    log_prob: Callable[[Any, Any], Array], predictive: Callable[[Any, Array], Any] | None = None
) -> Likelihood:
    """Any likelihood: ``log_prob(outputs, y)`` is the log-probability of each example.

    `predictive` is that of `Likelihood`, for `Result.predict`.
    """
    return Likelihood(
        "custom",
        log_prob=log_prob,
        score=lambda outputs, log_weights, y: mix(jax.vmap(log_prob, (0, None))(outputs, y), log_weights),
        metrics=lambda score, y: {"test_log_likelihood": float(np.mean(score))},
        headline="test_log_likelihood",
        predictive=predictive,
    )


LIKELIHOODS: dict[str, Callable[..., Likelihood]] = {
    each.__name__: each for each in (categorical, bernoulli, gaussian, poisson)
}
"""Likelihoods that the command line knows by name."""


def mix(log_p: Float[Array, "particle example"], log_weights: Array) -> Float[Array, " example"]:
    """Log-probability of each example under the mixture."""
    # A particle of weight zero may hold NaN, which a weight alone would not keep out of the sum.
    alive = (log_weights > -jnp.inf)[:, None]
    return jax.nn.logsumexp(jnp.where(alive, log_weights[:, None] + log_p, -jnp.inf), axis=0)


def _regression(
    name: str,
    log_prob: Callable[[Any, Array], Array],
    moments: Callable[[Any], tuple[Array, Array]],
    below: Callable[[Any, Array], tuple[Array, Array]],
    complain: Callable[[np.ndarray], str | None],
    own: Any = None,
) -> Likelihood:
    """A likelihood of numbers: its mean and variance, P(Y < y) and P(Y <= y), and what is wrong with a y."""

    def average(values: Array, log_weights: Array) -> Array:
        alive = (log_weights > -jnp.inf).reshape(-1, *[1] * (values.ndim - 1))
        return jnp.tensordot(jnp.exp(log_weights), jnp.where(alive, values, 0.0), 1)

    def predictive(outputs: Any, log_weights: Array) -> Prediction:
        mean, variance = jax.vmap(moments)(outputs)
        mixed = average(mean, log_weights)
        # The variance of the means as that of differences, which float32 needs.
        between = average((mean - mixed) ** 2, log_weights)
        return Prediction(mixed, jnp.sqrt(average(variance, log_weights) + between))

    def score(outputs: Any, log_weights: Array, y: Array) -> dict[str, Any]:
        low, high = (average(p, log_weights) for p in jax.vmap(below, (0, None))(outputs, y))
        return {
            "log_prob": mix(jax.vmap(log_prob, (0, None))(outputs, y), log_weights),
            "mean": predictive(outputs, log_weights).mean,
            "covered": (high >= (1 - INTERVAL) / 2) & (low <= (1 + INTERVAL) / 2),
        }

    def metrics(score: dict[str, np.ndarray], y: np.ndarray) -> dict[str, Any]:
        residual = np.asarray(_column(y), np.float64) - score["mean"]
        return {
            "test_log_likelihood": float(np.mean(score["log_prob"])),
            "test_rmse": float(np.sqrt(np.mean(residual**2))),
            f"test_coverage_{round(100 * INTERVAL)}": float(100 * np.mean(score["covered"])),
        }

    def check(outputs: Any, y: Any) -> str | None:
        outputs = outputs[0] if own else outputs
        return _not_arrays(outputs, y) or complain(y) or _shapes_differ(outputs, y, "outputs")

    prior = None if own is None else joint(own)
    return Likelihood(name, log_prob, score, metrics, "test_rmse", predictive, check, prior)


def _column(values: Any) -> Any:
    """(n, 1) as (n,)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _not_arrays(outputs: Any, y: Any) -> str | None:
    for name, value in (("outputs", outputs), ("y", y)):
        if not hasattr(value, "ndim"):
            return f"{name} of type {type(value).__name__}, but needs one array"
    return None


def _shapes_differ(outputs: Any, y: Any, what: str) -> str | None:
    found, wanted = (a.shape[:1] if a.shape[1:] == (1,) else a.shape for a in (outputs, y))
    return None if found == wanted else f"{what} of shape {outputs.shape}, but y of shape {y.shape}"
