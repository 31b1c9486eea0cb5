"""`run`, its results and what they can do, on a regression whose posterior is known in closed form."""

import dataclasses
import json
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import smcda
from smcda import Model, Result, SamplerConfig, Start, likelihoods, priors
from smcda.errors import BadInput
from smcda.runs.run import run, sample

NOISE, J = 0.8, 1_000
RNG = np.random.default_rng(3)
X = (RNG.normal(size=(240, 3)) @ np.array([[1, 0, 0], [0.6, 0.8, 0], [0, -0.3, 1.2]])).astype(np.float32)
Y = (X @ [0.8, -0.5, 0.4] + NOISE * RNG.normal(size=240)).astype(np.float32)
SCALE = np.array([0.5, 0.7, 2.0], np.float32)


def predict(parameters, x):
    return jnp.sum(x * parameters["slope"], axis=1)


MODEL = Model(predict, likelihoods.gaussian(scale=NOISE), {"slope": priors.normal(np.zeros(3), SCALE)})


def exact(n):
    x, y = X[:n].astype(float), Y[:n].astype(float)
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.diag(SCALE**-2.0))
    marginal = NOISE**2 * np.eye(n) + x @ np.diag(SCALE**2.0) @ x.T
    log_z = -0.5 * (np.linalg.slogdet(2 * np.pi * marginal)[1] + y @ np.linalg.solve(marginal, y))
    return covariance @ x.T @ y / NOISE**2, covariance, log_z


def assert_exact(result, n):
    """Mean, standard deviation and evidence within four standard errors; ESS says how large these are."""
    mean, covariance, log_z = exact(n)
    sd = np.sqrt(np.diag(covariance))
    slope, ess = np.asarray(result.params["slope"]), [row["ess"] for row in result.summary().values()]
    assert min(ess) > 200
    assert np.all(np.abs(slope.mean(axis=0) - mean) < 4 * sd / np.sqrt(ess))
    assert np.all(np.abs(slope.std(axis=0) / sd - 1) < 4 / np.sqrt(2 * np.array(ess)))
    assert result.log_evidence_error < 0.5
    assert abs(result.log_evidence - log_z) < 4 * result.log_evidence_error
    assert result.diagnostics == []


@pytest.fixture(scope="module")
def result():
    return run(MODEL, (X, Y), SamplerConfig(particles=J), test=(X[:50], Y[:50]), progress=False)


def test_the_posterior_of_a_regression_is_that_of_the_closed_form(result):
    assert_exact(result, 240)


@pytest.mark.slow
def test_a_posterior_extended_in_three_instalments_is_that_of_all_data():
    extended = run(MODEL, (X[:60], Y[:60]), SamplerConfig(particles=J), seed=1, progress=False)
    for first, end in ((60, 90), (90, 200), (200, 240)):
        extended = extended.extend(X[first:end], Y[first:end], progress=False)
        assert_exact(extended, end)


@pytest.mark.slow
def test_extending_costs_less_than_starting_again(result):
    most = run(MODEL, (X[:220], Y[:220]), SamplerConfig(particles=J), progress=False)
    rest = most.extend(X[220:], Y[220:], progress=False)
    assert rest.metrics["gradient_evaluations"] < result.metrics["gradient_evaluations"] / 2


def test_a_start_that_is_not_the_prior_gives_the_same_posterior():
    centre, width = jnp.asarray([0.5, -0.3, 0.3]), 1.0

    def draw(key):
        return {"slope": centre + width * standard_normal(key)}

    def log_density(a):
        return jnp.sum(-0.5 * ((a["slope"] - centre) / width) ** 2 - 0.5 * jnp.log(2 * jnp.pi * width**2))

    found = run(MODEL, (X, Y), SamplerConfig(particles=J), start=Start(draw, log_density), progress=False)
    assert_exact(found, 240)


def standard_normal(key):
    return jax.random.normal(key, (3,))


def test_a_start_without_a_density_gives_no_evidence():
    start = Start(lambda key: {"slope": standard_normal(key)})
    found = run(MODEL, (X, Y), SamplerConfig(particles=100), start=start, progress=False)
    assert found.log_evidence is None and found.log_evidence_error is None


def test_predictions_are_the_mixture_and_its_scores_those_of_the_metrics(result):
    found = result.predict(X[:50])
    means = np.asarray(result.params["slope"], float) @ X[:50].T.astype(float)
    np.testing.assert_allclose(found.mean, means.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.sd, np.sqrt(NOISE**2 + means.var(axis=0)), rtol=1e-4)
    rmse = np.sqrt(np.mean((found.mean - Y[:50]) ** 2))
    assert result.metrics["test_rmse"] == pytest.approx(rmse, rel=1e-5)
    assert 60 < result.metrics["test_coverage_90"] <= 100


def test_a_saved_result_is_read_back_and_predicts_the_same(result, tmp_path):
    result.save(tmp_path / "r.npz")
    bare, whole = Result.load(tmp_path / "r.npz"), Result.load(tmp_path / "r.npz", MODEL, (X, Y))
    for found in (bare, whole):
        np.testing.assert_array_equal(found.params["slope"], result.params["slope"])
        assert str(found.summary()) == str(result.summary())
        assert (found.log_evidence, found.diagnostics) == (result.log_evidence, result.diagnostics)
        np.testing.assert_array_equal(found.trace["beta"], result.trace["beta"])
    np.testing.assert_array_equal(whole.predict(X[:7]).mean, result.predict(X[:7]).mean)
    with pytest.raises(
        BadInput, match=r"predict needs the model that was sampled: Result.load\(path, model="
    ):
        bare.predict(X)
    with pytest.raises(BadInput, match="extend needs model and data"):
        bare.extend(X, Y)


def test_a_result_of_another_model_or_a_damaged_file_is_refused(result, tmp_path):
    path = tmp_path / "r.npz"
    result.save(path)
    other = Model(predict, likelihoods.gaussian(), {"slope": priors.normal(np.zeros(3), SCALE)})
    with pytest.raises(BadInput, match="has 3 parameters per particle, but the model 4"):
        Result.load(path, other)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadInput, match="cannot be read as a saved result"):
        Result.load(path)
    np.savez(path, particles=np.array([{}]))
    with pytest.raises(BadInput, match="it is not an archive of arrays"):
        Result.load(path)


@pytest.mark.parametrize(
    "params",
    [
        {"a": (np.zeros((4, 2)), [np.ones(4)])},
        np.zeros((4, 3)),
        (np.zeros((4, 1)), {"b": np.zeros((4, 2, 2))}),
    ],
    ids=["nested", "array", "tuple"],
)
def test_any_tree_of_dictionaries_lists_and_tuples_comes_back(params, result, tmp_path):
    changed = dataclasses.replace(result, params=params, weights=np.full(4, 0.25))
    changed.save(tmp_path / "r.npz")
    found = Result.load(tmp_path / "r.npz").params
    assert jax.tree.structure(found) == jax.tree.structure(params)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(params), strict=True):
        np.testing.assert_array_equal(one, other)


def test_resampling_keeps_the_weighted_moments(result):
    weights = RNG.dirichlet(np.ones(J)).astype(np.float32)
    weighted = dataclasses.replace(result, weights=weights)
    slope = np.asarray(result.params["slope"], float)
    equal = weighted.resample(20_000)
    assert np.all(equal.weights == equal.weights[0]) and len(equal.weights) == 20_000
    # Each particle appears as often as its weight says, give or take one.
    np.testing.assert_allclose(
        np.mean(equal.params["slope"], axis=0), weights.astype(float) @ slope, atol=J / 20_000
    )
    assert len(weighted.resample().weights) == J


def test_arviz_reads_it_and_agrees_with_the_weighted_moments(result):
    arviz = pytest.importorskip("arviz", reason="the extra arviz")
    weighted = dataclasses.replace(result, weights=RNG.dirichlet(np.ones(J)).astype(np.float32))
    found = weighted.to_arviz(log_likelihood=True)
    slope, weight = found.posterior["slope"].values[0], found.sample_stats["weight"].values[0]
    summary = arviz.summary(weighted.resample(50_000).to_arviz(), round_to=6)
    np.testing.assert_allclose(summary["mean"], weight @ slope, atol=1e-3)
    sd = np.sqrt(weight @ (slope - weight @ slope) ** 2)
    np.testing.assert_allclose(summary["sd"], sd, rtol=0.01)
    log_likelihood = found.log_likelihood["y"].values
    assert log_likelihood.shape == (1, J, 240)
    expected = -0.5 * ((Y - slope[7] @ X.T) / NOISE) ** 2 - np.log(NOISE) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_likelihood[0, 7], expected, rtol=1e-4, atol=1e-4)


def test_files_of_a_run_and_a_finished_folder_that_is_kept(tmp_path):
    arguments = (MODEL, (X, Y), SamplerConfig(particles=50))
    done = run(*arguments, test=(X[:9], Y[:9]), out=tmp_path / "out", progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}, "no checkpoint is left"
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["log_evidence"] == done.log_evidence and metrics["n_test"] == 9
    read = Result.load(tmp_path / "out" / "posterior.npz", MODEL)
    np.testing.assert_array_equal(read.params["slope"], done.params["slope"])
    with pytest.raises(BadInput, match="holds a finished run"):
        run(*arguments, out=tmp_path / "out", progress=False)


def test_callbacks_see_how_it_goes_and_may_end_it(caplog):
    seen = []

    def enough(progress):
        seen.append((progress.iteration, progress.row["beta"], progress.metrics))
        return progress.iteration >= 3

    with caplog.at_level(logging.WARNING, logger="smcda"):
        found = run(
            MODEL, (X, Y), SamplerConfig(particles=50), callbacks=[enough], evaluate_every=1,
            test=(X[:9], Y[:9]), progress=False,
        )  # fmt: skip
    assert seen[0][0] == 1 and seen[-1][0] == len(found.trace["beta"]) >= 3
    assert "test_rmse" in seen[0][2] and found.metrics["test_rmse"] > 0
    assert [doubt.name for doubt in found.diagnostics][0] == "unfinished"


def test_inputs_may_be_any_tree_and_y_may_be_missing():
    model = Model.from_log_likelihood(
        lambda p, x, y: -0.5 * (x["a"] - p["m"]) ** 2 + 0 * x["b"][:, 0], {"m": priors.normal()}
    )
    found = run(model, ({"a": X[:, 0], "b": X}, None), SamplerConfig(particles=500), progress=False)
    n, total = 240, float(X[:, 0].astype(float).sum())
    assert np.mean(found.params["m"]) == pytest.approx(total / (n + 1), abs=4 / np.sqrt(n * 500) * 2)


BAD = {
    "lengths": (lambda: run(MODEL, (X, Y[:-1])), "x has 240 examples and y 239"),
    "nan": (lambda: run(MODEL, (X, np.where(np.arange(240) == 7, np.nan, Y))), "not finite, first row 7"),
    "outputs": (
        lambda: run(Model(lambda p, x: x, likelihoods.gaussian(1.0), MODEL.prior), (X, Y)),
        r"likelihood gaussian: outputs of shape \(240, 3\), but y of shape \(240,\)",
    ),
    "raises": (
        lambda: run(Model(lambda p, x: p["slip"], likelihoods.gaussian(1.0), MODEL.prior), (X, Y)),
        "the model fails on float32 .*KeyError: 'slip'",
    ),
    "test tree": (
        lambda: run(MODEL, (X, Y), test=({"a": X}, Y)),
        r"test data are \[0\]\['a'\], \[1\], but the others \[0\], \[1\]: give the same tree of arrays",
    ),
    "test shape": (lambda: run(MODEL, (X, Y), test=(X[:, :2], Y)), r"test examples have shape \(2,\)"),
    "option": (lambda: run(MODEL, (X, Y), evaluate_every=0), "evaluate_every is 0"),
    "no predictive": (
        lambda: sample(of_the_mean, {"m": priors.normal()}, X, Y, SamplerConfig(particles=20)).predict(X),
        "this model has no predictive",
    ),
}


def of_the_mean(parameters, x, y):
    return -((y - parameters["m"]) ** 2)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case):
    call, words = BAD[case]
    with pytest.raises(BadInput, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_schedules_kernels_and_resamplers_may_be_functions():
    from smcda.smc.kernels import KERNELS
    from smcda.smc.schedules.base import BatchPlan

    def half_then_all(args):
        size = np.where(np.arange(args.iterations) < 5, args.n_data // 2, args.n_data)
        return BatchPlan(size, np.zeros(args.iterations, bool))

    own = {"scheme": half_then_all, "kernel": KERNELS["hmc"]._replace(default_steps=2)}
    config = SamplerConfig(**own, iterations=10, step_size=0.02, particles=20, batch_size=60)
    found = run(MODEL, (X, Y), config, progress=False)
    assert found.trace["batch_size"].tolist() == [120] * 5 + [240] * 5
    assert found.metrics["settings"]["scheme"].endswith("half_then_all")
    assert found.metrics["settings"]["leapfrog_steps"] == 2


def test_the_public_names_are_there_and_listed():
    for name in smcda.__all__:
        assert getattr(smcda, name) is not None
    assert set(smcda.__all__) <= set(dir(smcda))
