"""What `sample` gives back, warns of and reuses."""

import logging
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smcda import gaussian, sample
from smcda.config import SamplerConfig
from smcda.errors import BadInput, Diverged
from smcda.models.priors import from_log_density
from smcda.runs.result import Result
from smcda.runs.summary import summarise

N_DATA = 120


def data():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(N_DATA, 2)).astype(np.float32)
    return x, (rng.uniform(size=N_DATA) < 1 / (1 + np.exp(-x @ [1.0, -2.0]))).astype(np.float32)


def log_likelihood(parameters, x, y):
    logit = x @ parameters["slope"] + parameters["shift"]
    return y * logit - jnp.logaddexp(0.0, logit)


PRIOR = gaussian({"slope": np.zeros(2), "shift": 0.0}, {"slope": 2.0, "shift": 2.0})
FEW = {"batch_size": 20, "iterations": 4, "particles": 50, "step_size": 0.1}
BAD_RUNS = {
    "too few iterations": (
        {"iterations": 5},
        "unfinished",
        r"holds \d+ of 120 examples, at beta .*raise iterations",
    ),
    "two particles": ({"particles": 2}, "few_particles", "2 particles can show neither .*: use hundreds"),
    "weights of one stage": (
        {"ess_target": 0.01, "particles": 100},
        "few_effective",
        "left an effective [123]",
    ),
    "huge step": (
        {"scheme": "full_batch", "step_size": 0.6, "particles": 50, "iterations": 30},
        "energy_error",
        r"changes the energy by .* nats .*lower step_size \(now 0.6\)",
    ),
    "tiny step": (
        {"scheme": "full_batch", "step_size": 1e-4, "particles": 50, "iterations": 30},
        "unmoved",
        r"moved 0\.00\d* standard deviations of the prior .*raise step_size \(now 0.0001\)",
    ),
    "one ancestor": (
        {"scheme": "full_batch", "step_size": 1e-4, "particles": 50, "iterations": 30},
        "few_ancestors",
        r"all 50 particles descend from [12] of the first draws",
    ),
    "annealing without an end": (
        {
            "scheme": "smooth_data_annealing",
            "batch_size": 20,
            "iterations": 4,
            "particles": 50,
            "step_size": 0.1,
        },
        "unfinished",
        r"holds \d+ of 120 examples, at beta .*: this is not the posterior of all data",
    ),
    "no minibatch but the last": (
        FEW | {"scheme": "constant"},
        "unfinished",
        r"holds 20 of 120 examples.*choose a scheme that ends with all data",
    ),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_a_bad_run_says_what_is_wrong_and_what_to_change(name, caplog):
    settings, expected, message = BAD_RUNS[name]
    found = sample(log_likelihood, PRIOR, *data(), SamplerConfig(**settings))
    doubts = {doubt.name: doubt for doubt in found.diagnostics}
    assert expected in doubts, found.diagnostics
    assert re.search(message, doubts[expected].message), doubts[expected].message
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert doubts[expected].message in logged
    assert all("\n" not in line for line in logged)
    if doubts[expected].spoils_evidence:
        assert found.log_evidence is None and found.log_evidence_error is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        *(pytest.param(each, marks=pytest.mark.slow) for each in ({"kernel": "ld"}, {"ess_target": 0.9})),
        pytest.param({"batch_size": N_DATA}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_healthy_run_says_nothing_and_all_ways_agree(settings, caplog):
    found = sample(log_likelihood, PRIOR, *data(), SamplerConfig(**settings))
    assert found.diagnostics == [] and caplog.messages == []
    tempered = sample(
        log_likelihood, PRIOR, *data(), SamplerConfig(batch_size=N_DATA, particles=4_000), seed=1
    )
    difference = found.log_evidence - tempered.log_evidence
    assert abs(difference) < 4 * np.hypot(found.log_evidence_error, tempered.log_evidence_error)
    mean, exact = (np.mean(run.params["slope"], axis=0) for run in (found, tempered))
    np.testing.assert_allclose(mean, exact, atol=0.2 * np.std(tempered.params["slope"], axis=0).max())


@pytest.mark.slow
def test_what_a_function_reads_is_not_remembered_from_an_earlier_call():
    offset = {"value": np.zeros(2, np.float32)}

    def shifted(parameters, x, y):
        return log_likelihood({"slope": parameters["slope"] + offset["value"], "shift": 0.0}, x, y)

    means = []
    for value in (0.0, 1.5):
        offset["value"] = np.full(2, value, np.float32)
        means.append(
            np.mean(sample(shifted, PRIOR, *data(), SamplerConfig(particles=300)).params["slope"], axis=0)
        )
    assert np.all(means[0] - means[1] > 0.5)


def test_a_second_call_compiles_nothing():
    sample(log_likelihood, PRIOR, *data(), SamplerConfig(particles=150))
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: compiled.append(event) if "backend_compile" in event else None
    )
    sample(log_likelihood, PRIOR, *data(), SamplerConfig(particles=150), seed=1)
    assert compiled == []


def test_the_summary_has_a_row_per_scalar_and_prints_as_a_table():
    found = sample(log_likelihood, PRIOR, *data())
    summary = found.summary()
    assert list(summary) == ["shift", "slope[0]", "slope[1]"]
    slope = np.asarray(found.params["slope"][:, 1], np.float64)
    row = summary["slope[1]"]
    assert row["mean"] == pytest.approx(slope.mean(), rel=1e-5)
    assert row["sd"] == pytest.approx(slope.std(), rel=1e-5)
    assert row["median"] == pytest.approx(np.median(slope), abs=0.02)
    assert row["5 %"] < row["median"] < row["95 %"]
    assert 300 < row["ess"] <= 1_000
    lines = str(summary).splitlines()
    assert lines[0].split()[:3] == ["parameter", "mean", "sd"] and len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert isinstance(found, Result) and repr(summary) == str(summary)


def test_copies_of_one_draw_count_as_one():
    values = {"a": np.repeat([1.0, 2.0, 3.0, 6.0], 25)}
    families = np.repeat(np.arange(4), 25)
    together = summarise(values, np.full(100, 0.01), families)["a"]["ess"]
    apart = summarise(values, np.full(100, 0.01), np.arange(100))["a"]["ess"]
    assert together == pytest.approx(3) and apart == pytest.approx(99)
    assert summarise(values, np.full(100, 0.01), np.zeros(100, int))["a"]["ess"] == 1


def test_a_start_that_cannot_work_is_named_before_anything_moves():
    x, y = data()

    def sample_prior(value):
        return lambda key: {"slope": jax.random.normal(key, (2,)), "shift": jnp.asarray(value)}

    def log_density(p):
        return -jnp.sum(p["slope"] ** 2) / 2 - p["shift"] ** 2

    with pytest.raises(BadInput, match="1000 of 1000 draws from the prior are not finite"):
        sample(log_likelihood, from_log_density(sample_prior(jnp.inf), log_density), x, y)
    edge = from_log_density(sample_prior(0.0), lambda p: log_density(p) - jnp.sqrt(p["shift"]))
    with pytest.raises(BadInput, match="gradient of the prior's log-density is not finite"):
        sample(log_likelihood, edge, x, y)
    with pytest.raises(Diverged, match="no particle drawn from the prior has a finite log-likelihood"):
        sample(lambda p, x, y: log_likelihood(p, x, y) - jnp.inf, PRIOR, x, y)
    with pytest.raises(Diverged, match="is finite, but its gradient is not"):
        sample(lambda p, x, y: log_likelihood(p, x, y) - jnp.sqrt(0 * p["shift"]), PRIOR, x, y)


@pytest.mark.slow
def test_a_likelihood_with_an_edge_keeps_the_particles_inside():
    x, y = data()

    def with_an_edge(parameters, x, y):
        inside = parameters["shift"] > 0
        return jnp.where(inside, log_likelihood(parameters, x, y), -jnp.inf)

    found = sample(with_an_edge, PRIOR, x, y)
    free = sample(log_likelihood, PRIOR, x, y)
    share = np.mean(np.asarray(free.params["shift"]) > 0)
    assert np.all(np.asarray(found.params["shift"]) > 0)
    # The evidence is that of the part inside.
    assert found.log_evidence - free.log_evidence == pytest.approx(np.log(share), abs=0.5)


@pytest.mark.system
def test_another_process_finds_the_compiled_program(tmp_path):
    code = f"""
import sys, time
sys.path.insert(0, {str(__file__).rpartition("/tests/")[0]!r} + "/tests/runs")
import test_sample
started = time.perf_counter()
test_sample.sample(test_sample.log_likelihood, test_sample.PRIOR, *test_sample.data())
print(time.perf_counter() - started)
"""
    seconds = []
    for _ in range(2):
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command,
            env={"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        seconds.append(float(done.stdout.split()[-1]))
    assert list((tmp_path / "smcda" / "compiled").iterdir())
    assert seconds[1] < 0.8 * seconds[0]
