"""Entropy and mutual information as worked out in double precision; AUROC as scikit-learn has it."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from smcda import likelihoods
from smcda.models.uncertainty import auroc, class_uncertainty

RNG = np.random.default_rng(0)
# Few different values: most are tied with others.
NUMBERS = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=30).map(np.array)


@given(NUMBERS, NUMBERS)
def test_auroc_is_that_of_scikit_learn_with_ties(known, foreign):
    truth = np.repeat([0, 1], [len(known), len(foreign)])
    assert auroc(known, foreign) == pytest.approx(roc_auc_score(truth, np.concatenate([known, foreign])))


def test_auroc_is_one_when_all_foreign_numbers_are_larger_and_half_when_all_are_equal():
    assert auroc(np.array([0.0, 1.0]), np.array([2.0, 3.0])) == 1
    assert auroc(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 0
    assert auroc(np.zeros(4), np.zeros(3)) == 0.5


def by_definition(logits, weights):
    log_p = log_softmax(logits.astype(float), axis=-1)
    p = np.exp(log_p)
    mixed = np.tensordot(weights, p, axes=1)
    entropy = -np.sum(mixed * np.log(mixed), axis=-1)
    return entropy, entropy + np.tensordot(weights, np.sum(p * log_p, axis=-1), axes=1)


def test_entropy_and_mutual_information_of_weighted_particles():
    logits, weights = RNG.normal(0, 3, (5, 40, 4)).astype(np.float32), RNG.dirichlet(np.ones(5))
    found = class_uncertainty(jnp.asarray(logits), jnp.log(jnp.asarray(weights, jnp.float32)))
    for ours, theirs in zip(found, by_definition(logits, weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_particles_that_agree_have_no_mutual_information_whatever_the_rounding():
    logits = np.repeat(RNG.normal(0, 8, (1, 500, 10)), 7, axis=0).astype(np.float32)
    found = class_uncertainty(jnp.asarray(logits), jnp.log(jnp.full(7, 1 / 7)))
    assert np.all(np.asarray(found.mutual_information) == 0)
    assert np.ptp(np.asarray(found.entropy)) > 0.5


def test_a_particle_of_weight_zero_does_not_count_even_if_it_is_not_a_number():
    logits = RNG.normal(0, 3, (3, 20, 4)).astype(np.float32)
    spoilt = np.concatenate([logits, np.full((1, 20, 4), np.nan, np.float32)])
    log_weights = jnp.log(jnp.asarray([0.5, 0.25, 0.25]))
    with_it = class_uncertainty(jnp.asarray(spoilt), jnp.append(log_weights, -jnp.inf))
    for ours, theirs in zip(with_it, class_uncertainty(jnp.asarray(logits), log_weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_two_classes_are_as_unsure_by_one_logit_as_by_two():
    logit = RNG.normal(0, 2, (4, 30)).astype(np.float32)
    log_weights, two = jnp.log(jnp.full(4, 0.25)), np.stack([np.zeros_like(logit), logit], axis=-1)
    one = likelihoods.bernoulli().uncertainty(jnp.asarray(logit), log_weights)
    for ours, theirs in zip(one, class_uncertainty(jnp.asarray(two), log_weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
