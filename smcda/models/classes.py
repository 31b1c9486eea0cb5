"""The posterior predictive over classes, and its metrics."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer, Shaped

N_BINS = 15


class ClassPredictive(NamedTuple):
    """Log-probabilities of the mixture, and the votes of the particles for each class.

    `votes` are by weight, `equal_votes` by number, of the particles that have any weight.
    """

    log_probabilities: Float[np.ndarray | Array, "example label"]
    votes: Float[np.ndarray | Array, "example label"]
    equal_votes: Float[np.ndarray | Array, "example label"]


def mix_classes(
    logits: Float[Array, "particle example label"], log_weights: Float[Array, " particle"]
) -> ClassPredictive:
    """Mix the particles' class probabilities under their weights."""
    # A particle of weight zero may hold NaN, which a weight alone would not keep out of the sum.
    alive = (log_weights > -jnp.inf)[:, None, None]
    log_weight = log_weights[:, None, None]
    log_p = jax.nn.log_softmax(logits)
    mixed = jax.nn.logsumexp(jnp.where(alive, log_weight + log_p, -jnp.inf), axis=0)
    vote = jax.nn.one_hot(jnp.argmax(log_p, axis=-1), log_p.shape[-1])
    votes, equal_votes = (
        jnp.sum(jnp.where(alive, weight * vote, 0.0), axis=0)
        for weight in (jnp.exp(log_weight), alive / jnp.maximum(jnp.sum(alive), 1))
    )
    return ClassPredictive(mixed, votes, equal_votes)


def score_classes(predictive: ClassPredictive, labels: Integer[np.ndarray, " example"]) -> dict[str, Any]:
    """Every metric of a predictive; accuracy in per cent, entropy in nats.

    `particle_accuracy` is the mean over particles of each one's own accuracy, whatever its weight,
    `disagreement` the probability that two particles drawn by weight vote for different classes,
    `brier` the squared distance between probabilities and the truth (0 to 2), `ece` the expected
    calibration error over equal bins of confidence.
    """
    log_p = np.asarray(predictive.log_probabilities)
    p = np.exp(log_p)
    rows = np.arange(len(labels))
    truth = np.zeros_like(p)
    truth[rows, labels] = 1
    bins = reliability(predictive, labels)
    share = bins["n_examples"] / len(labels)
    return {
        "test_log_likelihood": float(log_p[rows, labels].mean()),
        "test_accuracy": float(100 * np.mean(p.argmax(axis=1) == labels)),
        "particle_accuracy": float(100 * np.mean(np.asarray(predictive.equal_votes)[rows, labels])),
        "ece": float(np.sum(share * np.abs(bins["accuracy"] - bins["confidence"]))),
        "brier": float(np.mean(np.sum((p - truth) ** 2, axis=1))),
        "predictive_entropy": float(-np.mean(np.sum(p * np.where(p > 0, log_p, 0.0), axis=1))),
        "disagreement": float(max(0.0, np.mean(1 - np.sum(np.asarray(predictive.votes) ** 2, axis=1)))),
        "reliability": {name: column.tolist() for name, column in bins.items()},
    }


def reliability(
    predictive: ClassPredictive, labels: Integer[np.ndarray, " example"]
) -> dict[str, Shaped[np.ndarray, " bin"]]:
    """How often the most probable class is right, by how probable it was said to be; zero in empty bins."""
    p = np.exp(predictive.log_probabilities)
    confidence = p.max(axis=1)
    correct = p.argmax(axis=1) == labels
    which = np.clip((confidence * N_BINS).astype(int), 0, N_BINS - 1)
    count = np.bincount(which, minlength=N_BINS)
    sums = {
        "confidence": np.bincount(which, confidence, N_BINS),
        "accuracy": np.bincount(which, correct, N_BINS),
    }
    return {name: total / np.maximum(count, 1) for name, total in sums.items()} | {"n_examples": count}
