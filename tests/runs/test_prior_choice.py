"""The prior scale chosen by evidence, on a regression whose evidence is known in closed form."""

import dataclasses
import logging

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

from smcda import Model, SamplerConfig, choose_prior_scale, likelihoods, priors
from smcda.errors import BadInput
from smcda.runs import prior_choice
from smcda.runs.diagnostics import Diagnostic

mpl.use("agg")
NOISE, D, N = 1.0, 4, 60
SCALES = (0.05, 0.3, 1.5, 8.0)
SETTINGS = SamplerConfig(particles=200)


def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(N, D))
    return x.astype(np.float32), (x @ [1.4, -2.0, 1.0, 1.7] + NOISE * rng.normal(size=N)).astype(np.float32)


def model_of_scale(scale):
    def predict(parameters, x):
        return jnp.sum(x * parameters["slope"], axis=1)

    return Model(predict, likelihoods.gaussian(NOISE), {"slope": priors.normal(np.zeros(D), scale)})


def exact_log_evidence(scale):
    x, y = (part.astype(float) for part in data())
    marginal = NOISE**2 * np.eye(N) + scale**2 * x @ x.T
    return -0.5 * (np.linalg.slogdet(2 * np.pi * marginal)[1] + y @ np.linalg.solve(marginal, y))


@pytest.fixture(scope="module")
def choice():
    # Test data that suit the narrowest prior best: they must not matter.
    x, y = data()
    return choose_prior_scale(model_of_scale, (x, y), SCALES, SETTINGS, test=(x, 0 * y), progress=False)


@pytest.mark.slow
def test_the_scale_of_largest_evidence_is_chosen(choice):
    exact = {scale: exact_log_evidence(scale) for scale in SCALES}
    assert choice.scale == max(exact, key=lambda scale: exact[scale]) == 1.5
    assert choice.result is choice.results[1.5]
    for row in choice.table:
        assert abs(row["log_evidence"] - exact[row["scale"]]) < 4 * row["log_evidence_error"]
    assert choice.doubts == []
    scores = [row["test_log_likelihood"] for row in choice.table]
    assert max(scores) == scores[0]


@pytest.mark.slow
def test_it_prints_as_a_table(choice):
    lines = str(choice).splitlines()
    assert lines[0].split()[:3] == ["scale", "log_evidence", "log_evidence_error"]
    assert [line.split()[0] for line in lines[1:5]] == ["0.05", "0.3", "1.5", "8"]
    assert len({len(line) for line in lines[:5]}) == 1
    assert lines[5] == "chosen: 1.5"


@pytest.mark.slow
def test_the_plot_has_evidence_and_test_scores(choice):
    axes = choice.plot()
    table = choice.table
    (line,) = [line for line in axes.get_lines() if len(line.get_xdata()) == len(SCALES)]
    np.testing.assert_allclose(
        line.get_xydata(), [(row["scale"], row["log_evidence"]) for row in table], rtol=1e-6
    )
    (other,) = [each for each in axes.figure.axes if each is not axes]
    drawn = other.get_lines()[0].get_xydata()
    np.testing.assert_allclose(drawn[:, 1], [row["test_log_likelihood"] for row in table], rtol=1e-6)


@pytest.fixture
def with_evidence(choice, monkeypatch):
    """A choice among runs whose log evidence and its error are as given."""

    def choose(found, **options):
        def run(scale, *_, **__):
            z, error = found[scale]
            doubts = [Diagnostic("drift", 1.0, "drifts")] if z is None else []
            given = {"log_evidence": z, "log_evidence_error": error, "diagnostics": doubts}
            return dataclasses.replace(choice.result, **given)

        monkeypatch.setattr(prior_choice, "run", run)
        return choose_prior_scale(lambda scale: scale, None, list(found), **options)

    return choose


def test_scales_that_are_too_near_or_at_the_end_are_said_to_be(with_evidence, caplog):
    with caplog.at_level(logging.WARNING, logger="smcda"):
        found = with_evidence({1.0: (-9.0, 0.1), 2.0: (-5.5, 0.3), 4.0: (-5.0, 0.4)}, progress=False)
    near, end = found.doubts
    assert "scales 4.0 and 2.0 differ by 0.50 nats" in near and "within two standard errors (1.00)" in near
    assert "4.0 is at the end of those that were tried: try larger ones" in end
    assert caplog.messages == found.doubts
    assert with_evidence({1.0: (-9.0, 0.1), 2.0: (-5.0, 0.3), 4.0: (-8.0, 0.4)}).doubts == []


def test_a_scale_without_evidence_is_not_chosen_and_the_reason_is_given(with_evidence, capsys):
    found = with_evidence({"fan_in": (-9.0, 0.1), "hierarchical": (None, None)})
    assert found.scale == "fan_in"
    assert found.doubts[0].startswith("there is no evidence to be trusted at prior scale hierarchical")
    assert "prior scale hierarchical: no log evidence (drift)" in capsys.readouterr().err
    assert found.plot() is not None
    none = with_evidence({1.0: (None, None)})
    assert none.scale is None and "none" in str(none)
    with pytest.raises(BadInput, match="no prior scale was chosen: there is no evidence"):
        _ = none.result


@pytest.mark.parametrize("scales", [(), (1.0, 1.0)])
def test_no_scales_or_equal_ones_are_refused(scales):
    with pytest.raises(BadInput, match="must be different ones, and at least one"):
        choose_prior_scale(model_of_scale, data(), scales)
