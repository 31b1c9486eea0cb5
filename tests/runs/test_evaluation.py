"""The posterior predictive is the weighted mixture, and its metrics are those worked out by hand."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from smcda.models.classes import N_BINS, ClassPredictive, mix_classes, reliability, score_classes
from smcda.runs import evaluation
from smcda.runs.evaluation import Sliced

# Four examples, three classes; the second is the only one predicted wrongly.
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.72, 0.18], [0.25, 0.25, 0.5], [0.05, 0.05, 0.9]])
VOTES = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.2, 0.3, 0.5], [0, 0.5, 0.5]])
EQUAL_VOTES = np.array([[1, 0, 0], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0, 0.25, 0.75]])
LABELS = np.array([0, 2, 2, 2], np.uint8)
PREDICTIVE = ClassPredictive(np.log(P), VOTES, EQUAL_VOTES)

BY_HAND = {
    "test_log_likelihood": math.log(0.7 * 0.18 * 0.5 * 0.9) / 4,
    "test_accuracy": 75.0,
    "particle_accuracy": 100 * (1 + 0.25 + 0.5 + 0.75) / 4,
    "brier": (0.14 + 1.2008 + 0.375 + 0.015) / 4,
    "predictive_entropy": -sum(p * math.log(p) for row in P.tolist() for p in row) / 4,
    # Bins of 1/15: 0.7 and 0.72 share one (mean 0.71, half right), 0.5 and 0.9 are right.
    "ece": 0.5 * 0.21 + 0.25 * 0.5 + 0.25 * 0.1,
    "disagreement": (0 + 0.375 + 0.62 + 0.5) / 4,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_metric_worked_by_hand(name):
    assert score_classes(PREDICTIVE, LABELS)[name] == pytest.approx(BY_HAND[name], rel=1e-12)


def test_no_metric_is_left_untested():
    assert set(score_classes(PREDICTIVE, LABELS)) == {*BY_HAND, "reliability"}


def test_reliability_bins_by_confidence_and_leaves_empty_bins_zero():
    bins = reliability(PREDICTIVE, LABELS)
    filled = {7: (0.5, 1, 1), 10: (0.71, 0.5, 2), 13: (0.9, 1, 1)}
    assert N_BINS == 15 and all(len(column) == N_BINS for column in bins.values())
    for i in range(N_BINS):
        found = tuple(bins[name][i] for name in ("confidence", "accuracy", "n_examples"))
        assert found == pytest.approx(filled.get(i, (0, 0, 0))), i


@pytest.mark.parametrize("excess", [0.0, 1e-7])
def test_confidence_of_one_is_in_the_last_bin_even_if_rounded_above(excess):
    certain = ClassPredictive(
        np.array([[excess, -800.0, -900.0], [-900.0, excess, -800.0]]), *[np.eye(3)[:2]] * 2
    )
    labels = np.array([0, 2])
    assert reliability(certain, labels)["n_examples"].tolist() == [0] * 14 + [2]
    assert reliability(certain, labels)["accuracy"][-1] == 0.5
    assert score_classes(certain, labels)["ece"] == pytest.approx(0.5, abs=1e-6)


def test_an_impossible_class_adds_nothing_to_the_entropy():
    impossible = ClassPredictive(np.array([[0.0, -np.inf, -np.inf]]), *[np.eye(3)[:1]] * 2)
    found = score_classes(impossible, np.array([0]))
    del found["reliability"]
    assert found == {**dict.fromkeys(BY_HAND, 0.0), "test_accuracy": 100.0, "particle_accuracy": 100.0}


# A linear softmax model on two features, three particles of uneven weight.
RNG = np.random.default_rng(11)
X = RNG.normal(size=(7, 2)).astype(np.float32)
PARTICLES = RNG.normal(size=(3, 6)).astype(np.float32)
WEIGHTS = np.array([0.55, 0.3, 0.15])


def linear(particles, x):
    return jnp.einsum("nf,pfc->pnc", x, particles.reshape(-1, 2, 3))


def plain_mixture(particles, weights):
    logits = np.einsum("nf,pfc->pnc", X.astype(float), particles.reshape(-1, 2, 3).astype(float))
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    votes = np.eye(3)[logits.argmax(axis=-1)]
    return np.einsum("p,pnc->nc", weights, p), np.einsum("p,pnc->nc", weights, votes)


def predictor():
    shapes = (jnp.zeros((3, 6)), jnp.zeros(3))
    return Sliced(
        lambda particles, log_weights, x: mix_classes(linear(particles, x), log_weights), X, *shapes
    )


@pytest.mark.parametrize("slice_length", [1, 3, 7, 10])
def test_the_predictor_mixes_by_weight_whatever_the_slices(slice_length, monkeypatch):
    monkeypatch.setattr(evaluation, "SLICE_LENGTH", slice_length)
    found = predictor()(jnp.asarray(PARTICLES), jnp.log(jnp.asarray(WEIGHTS, jnp.float32)))
    p, votes = plain_mixture(PARTICLES, WEIGHTS)
    assert len({tuple(row) for row in votes}) > 2, "the particles should disagree somewhere"
    np.testing.assert_allclose(np.exp(found.log_probabilities), p, rtol=1e-5)
    np.testing.assert_allclose(found.votes, votes, rtol=1e-6)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("dead", [0, 2])
def test_a_particle_of_weight_zero_does_not_matter_whatever_it_holds(poison, dead):
    particles, weights = PARTICLES.copy(), WEIGHTS.copy()
    particles[dead], weights[dead] = poison, 0
    weights /= weights.sum()
    found = predictor()(jnp.asarray(particles), jnp.log(jnp.asarray(weights, jnp.float32)))
    p, votes = plain_mixture(np.delete(particles, dead, 0), np.delete(weights, dead))
    np.testing.assert_allclose(np.exp(found.log_probabilities), p, rtol=1e-5)
    np.testing.assert_allclose(found.votes, votes, rtol=1e-6)
