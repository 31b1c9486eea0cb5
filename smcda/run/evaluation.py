"""The posterior predictive of a classifier, and what to say about it.

The predictive is the mixture of the particles' own predictions under the posterior weights,

    p(y | x) = sum_j w_j p(y | x, theta_j).

The device computes the mixture and each class's share of the weighted votes; both are small, so the
metrics are then taken on the host, in double precision.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Shaped

from smcda.parallel.sharding import to_host
from smcda.smc.target import Target

N_BINS = 15
Logits = Callable[[Any, Any], Array]
"""``(parameters, x) -> logits`` of each example, for one particle."""
ParticleLogits = Callable[[Array, Array], Array]
"""``(particles, x) -> logits`` of each particle on each example, for flat particles."""


def mapped(logits: Logits, target: Target) -> ParticleLogits:
    """Map a model's logits over particles."""
    return jax.vmap(lambda flat, x: logits(target.unravel(flat), x), in_axes=(0, None))


class Predictive(NamedTuple):
    """Log-probabilities of the mixture, and the weight of the particles that vote for each class."""

    log_probabilities: Float[np.ndarray, "example label"]
    votes: Float[np.ndarray, "example label"]


class Reliability(NamedTuple):
    """How often the most probable class is right, by how probable it was said to be."""

    confidence: Float[np.ndarray, " bin"]
    accuracy: Float[np.ndarray, " bin"]
    n_examples: Integer[np.ndarray, " bin"]


class Predictor:
    """Predicts one fixed set of examples, compiled once for all evaluations of a run."""

    def __init__(
        self,
        logits: ParticleLogits,
        x: Shaped[np.ndarray, "example ..."],
        particles: Float[Array, "particle parameter"],
        log_weights: Float[Array, " particle"],
        slice_length: int = 200,
    ) -> None:
        """Put the examples on the device, in slices whose last one is filled up, and compile.

        Of `particles` and `log_weights` only shape and placement matter, not their values.
        """
        n_slices = -(-len(x) // slice_length)
        rows = np.minimum(np.arange(n_slices * slice_length), len(x) - 1)
        self._n_examples = len(x)
        self._slices = jnp.asarray(x[rows].reshape(n_slices, slice_length, *x.shape[1:]))
        started = time.perf_counter()
        mixture = jax.jit(partial(_mixture, logits))
        self._predict = mixture.lower(particles, log_weights, self._slices).compile()
        self.compile_s = time.perf_counter() - started

    def __call__(
        self, particles: Float[Array, "particle parameter"], log_weights: Float[Array, " particle"]
    ) -> Predictive:
        """Mix the particles' predictions under their weights."""
        parts = to_host(self._predict(particles, log_weights, self._slices))
        flat = (part.astype(np.float64).reshape(-1, part.shape[-1])[: self._n_examples] for part in parts)
        return Predictive(*flat)


def _mixture(
    logits: ParticleLogits, particles: Array, log_weights: Array, slices: Array
) -> tuple[Array, Array]:
    # A particle of weight zero may hold NaN, which a weight alone would not keep out of the sum.
    alive = (log_weights > -jnp.inf)[:, None, None]
    log_weight = log_weights[:, None, None]

    def one_slice(x: Array) -> tuple[Array, Array]:
        log_p = jax.nn.log_softmax(logits(particles, x))
        mixed = jax.nn.logsumexp(jnp.where(alive, log_weight + log_p, -jnp.inf), axis=0)
        vote = jax.nn.one_hot(jnp.argmax(log_p, axis=-1), log_p.shape[-1])
        return mixed, jnp.sum(jnp.where(alive, jnp.exp(log_weight) * vote, 0.0), axis=0)

    return jax.lax.map(one_slice, slices)


def metrics(predictive: Predictive, labels: Integer[np.ndarray, " example"]) -> dict[str, float]:
    """Every scalar metric of a predictive; accuracy in per cent, entropy in nats.

    `disagreement` is the probability that two particles drawn by weight vote for different classes,
    `brier` the squared distance between probabilities and the truth (0 to 2), `ece` the expected
    calibration error over equal bins of confidence.
    """
    log_p = predictive.log_probabilities
    p = np.exp(log_p)
    rows = np.arange(len(labels))
    truth = np.zeros_like(p)
    truth[rows, labels] = 1
    bins = reliability(predictive, labels)
    share = bins.n_examples / len(labels)
    return {
        "test_log_likelihood": float(log_p[rows, labels].mean()),
        "test_accuracy": float(100 * np.mean(p.argmax(axis=1) == labels)),
        "ece": float(np.sum(share * np.abs(bins.accuracy - bins.confidence))),
        "brier": float(np.mean(np.sum((p - truth) ** 2, axis=1))),
        "predictive_entropy": float(-np.mean(np.sum(p * np.where(p > 0, log_p, 0.0), axis=1))),
        "disagreement": float(max(0.0, np.mean(1 - np.sum(predictive.votes**2, axis=1)))),
    }


def reliability(predictive: Predictive, labels: Integer[np.ndarray, " example"]) -> Reliability:
    """Bin examples by the probability of their most probable class; empty bins hold zeros."""
    p = np.exp(predictive.log_probabilities)
    confidence = p.max(axis=1)
    correct = p.argmax(axis=1) == labels
    which = np.clip((confidence * N_BINS).astype(int), 0, N_BINS - 1)
    count = np.bincount(which, minlength=N_BINS)
    divisor = np.maximum(count, 1)
    return Reliability(
        np.bincount(which, confidence, N_BINS) / divisor, np.bincount(which, correct, N_BINS) / divisor, count
    )
