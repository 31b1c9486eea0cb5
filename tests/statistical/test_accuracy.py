"""The measure of accuracy itself, on made-up numbers worked out by hand."""

import numpy as np
import pytest
from helpers.accuracy import Result, accuracy, summarise
from statistical.problems import PROBLEMS

KNOWN = {
    "quantities": {"a": {"mean": [1.0, 2.0], "sd": [0.5, 4.0]}, "b": {"mean": [0.0], "sd": [1.0]}},
    "log_evidence": -10.0,
}


def result(a, b, sd_a, sd_b, log_evidence, error):
    return Result(
        {"a": np.array(a), "b": np.array([b])},
        {"a": np.array(sd_a), "b": np.array([sd_b])},
        log_evidence,
        error,
    )


def test_errors_are_those_of_averages_over_seeds():
    results = [
        result([1.0, 2.0], 0.3, [0.5, 3.0], 1.0, -10.3, 0.2),
        result([1.2, 4.0], -0.3, [0.5, 4.0], 1.0, -9.6, 0.1),
    ]
    found = accuracy(results, KNOWN)
    assert found.mean_error == pytest.approx(0.25)  # second of a: 3 for 2, at a spread of 4
    assert found.sd_error == pytest.approx(0.125)  # second of a: 3.5 for 4
    assert found.log_evidence_rmse == pytest.approx(np.sqrt((0.3**2 + 0.4**2) / 2))
    assert found.n_covered == 1


def test_the_worst_component_of_any_quantity_counts():
    found = accuracy([result([1.0, 2.0], 3.0, [0.5, 4.0], 0.5, -10.0, 0.0)], KNOWN)
    assert found.mean_error == pytest.approx(3.0)
    assert found.sd_error == pytest.approx(0.5)
    assert (found.log_evidence_rmse, found.n_covered) == (0.0, 1)


def test_a_result_that_is_not_a_number_does_not_look_accurate():
    found = accuracy([result([np.nan, 2.0], 0.0, [0.5, 4.0], np.nan, np.nan, 0.1)], KNOWN)
    assert np.isnan(found[:3]).all()
    assert found.n_covered == 0


def test_particles_are_summarised_by_their_weights():
    slope = np.array([[0.0, 1.0, 2.0], [4.0, 1.0, 2.0]], np.float32)
    found = summarise(PROBLEMS["conjugate_3"], {"slope": slope}, np.array([0.75, 0.25]), -1.0, 0.5)
    np.testing.assert_allclose(found.mean["slope"], [1.0, 1.0, 2.0])
    np.testing.assert_allclose(found.sd["slope"], [np.sqrt(3.0), 0.0, 0.0])
    assert (found.log_evidence, found.log_evidence_error) == (-1.0, 0.5)
