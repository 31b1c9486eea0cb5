"""The adaptive sampler, with nothing tuned, against posteriors and evidences that are known by other means.

Ten seeds per problem; the problems and how their answers were found are in problems.py and reference.json.
"""

import logging

import numpy as np
import pytest
from helpers.accuracy import accuracy, reference, summarise
from statistical.problems import PROBLEMS

from smcda import sample

SEEDS = range(10)
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name != "conjugate_3")) for name in PROBLEMS]


@pytest.mark.parametrize("name", NAMES)
def test_default_settings_give_the_posterior_and_the_evidence(name, caplog):
    problem = PROBLEMS[name]
    results = []
    with caplog.at_level(logging.WARNING, logger="smcda"):
        for seed in SEEDS:
            found = sample(problem.log_likelihood, problem.prior, *problem.data(), seed=seed)
            assert found.diagnostics == [], "a healthy run has no doubts"
            assert np.all(found.weights == found.weights[0])
            results.append(
                summarise(problem, found.params, found.weights, found.log_evidence, found.log_evidence_error)
            )
    assert caplog.messages == []
    found = accuracy(results, reference(name))
    assert found.mean_error < 0.1
    assert found.sd_error < 0.1
    assert found.n_covered >= 8
    # With 50 parameters the sum of many small errors is larger; its own error bar says how much.
    assert found.log_evidence_rmse < 0.4
