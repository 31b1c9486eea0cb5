"""Each doubt comes from the numbers that deserve it, and from no others; the error of log Z by hand."""

import numpy as np
import pytest

from smcda.config import SamplerConfig
from smcda.runs.diagnostics import Particles, diagnose, evidence_error

J, N_DATA = 100, 50
PARTICLES = Particles(np.full(J, 1 / J), np.arange(J) // 4, 2.0)


def trace(**changes):
    """A healthy adaptive run: eight targets of three moves, then a last one of six."""
    moves = np.array([1, 2, 3] * 8 + [1, 2, 3, 4, 5, 6])
    k = len(moves)
    healthy = {
        "batch_size": np.full(k, N_DATA),
        "beta": np.append(np.linspace(0.1, 0.9, k - 6), np.ones(6)),
        "ess": np.where(moves == 1, J / 2, J).astype(float),
        "resampled": moves == 1,
        "unique_ancestors": np.full(k, 25),
        "log_likelihood": np.full(k, -1.0),
        "log_likelihood_sd": np.full(k, 2.0),
        "energy_error": np.full(k, 0.2),
        "acceptance": np.full(k, 0.8),
        "n_moves": moves,
        "correlation": np.full(k, 0.1),
    }
    return healthy | changes


def doubts(config=None, particles=PARTICLES, error=0.3, **changes):
    config = config or SamplerConfig(particles=J, max_moves=3)
    return {doubt.name: doubt for doubt in diagnose(config, N_DATA, trace(**changes), particles, error)}


def test_a_healthy_run_gives_no_doubt():
    assert doubts() == {}


def test_every_doubt_of_an_adaptive_run():
    remembers = doubts(correlation=np.full(30, 0.9))["not_settled"]
    assert "at 8 of 9 targets" not in remembers.message and "at 9 of 9 targets" in remembers.message
    assert "raise max_moves, or leapfrog_steps (now 64)" in remembers.message and remembers.spoils_evidence
    langevin = SamplerConfig(kernel="ld", particles=J, max_moves=3)
    assert "leapfrog_steps" not in doubts(langevin, correlation=np.full(30, 0.9))["not_settled"].message
    assert not doubts(correlation=np.full(30, 0.6))["not_settled"].spoils_evidence
    # One target of nine on the way, or moves that stopped before the cap because there was nothing to forget.
    assert doubts(correlation=np.where(np.arange(30) < 3, 0.9, 0.1)) == {}
    assert doubts(SamplerConfig(particles=J, max_moves=50), correlation=np.full(30, 0.9)) == {}

    assert "acceptance rate is 0.10" in doubts(acceptance=np.full(30, 0.1))["acceptance"].message
    rising = np.append(np.full(24, -1.0), -1 + np.arange(6) / N_DATA)
    assert (
        "by +1.50 of its standard deviations over 6 moves" in doubts(log_likelihood=rising)["drift"].message
    )
    assert doubts(log_likelihood=np.append(np.full(24, -1.0), -1 + np.arange(6) / N_DATA / 9)) == {}
    assert "effective 2.0 of 100" in doubts(ess=np.full(30, 2.0))["few_effective"].message
    unsure = doubts(error=1.7)["evidence_error"]
    assert "standard error of 1.7 nats with 100 particles" in unsure.message and not unsure.spoils_evidence
    assert list(doubts(error=1.7, beta=np.full(30, 0.5))) == ["unfinished"], "no evidence, no error of it"
    assert list(doubts(SamplerConfig(particles=3))) == ["few_particles"]


def test_every_doubt_of_an_unadjusted_run():
    config = SamplerConfig(scheme="linear", step_size=0.1)
    assert doubts(config) == {}
    assert list(doubts(config, unique_ancestors=np.full(30, 5))) == ["few_ancestors"]
    assert doubts(config, unique_ancestors=np.full(30, 6)) == {}
    assert list(doubts(config, energy_error=np.full(30, 4.0))) == ["energy_error"]
    assert list(doubts(config, energy_error=np.full(30, np.nan))) == ["energy_error"]
    assert list(doubts(config, PARTICLES._replace(distance=0.05))) == ["unmoved"]
    assert (
        "choose a scheme"
        in doubts(SamplerConfig(scheme="constant"), batch_size=np.full(30, 9))["unfinished"].message
    )


def test_the_error_of_the_evidence_is_the_larger_of_two():
    # 25 families of four: sum (0.04 - 0.01)^2 over them, and 0.01^2 over the 75 draws without descendants.
    alone = trace(ess=np.full(30, float(J)))
    assert evidence_error(alone, PARTICLES) == pytest.approx(np.sqrt(25 * 0.03**2 + 75 * 0.01**2))
    # Nine changes of target that halve the ESS add 1/50 - 1/100 each.
    each_its_own = PARTICLES._replace(root_ancestor=np.arange(J))
    assert evidence_error(trace(), each_its_own) == pytest.approx(np.sqrt(9 / 100))
