"""The hierarchical prior on a model whose posterior is known: linear in two layers, each of unknown scale.

Given the log-scales the model is Gaussian, with evidence and moments in closed form; over the two log-scales
these are summed on a grid.
"""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from helpers.accuracy import Result, accuracy

from smcda import Model, SamplerConfig, from_flax, likelihoods, priors, run
from smcda import Result as Posterior
from smcda.errors import BadInput
from smcda.models.base import FastCode
from smcda.models.flat import flattened
from smcda.smc.likelihood import xla_likelihood

N, NOISE, MEAN, SD = 60, 1.0, 0.4, 0.9
SEEDS = range(10)
FAN_IN = np.array([2, 2, 6, 6, 6, 6, 6, 6, 6])  # weights of "few", then bias and weights of "many"
LAYER = np.array([0, 0, 1, 1, 1, 1, 1, 1, 1])


class TwoLayers(nn.Module):
    """Two layers side by side, so that outputs are linear in all weights."""

    @nn.compact
    def __call__(self, x):
        few = nn.Dense(1, use_bias=False, name="few")(x[:, :2])
        return few + nn.Dense(1, name="many")(x[:, 2:])


def data():
    rng = np.random.default_rng(11)
    x = rng.normal(size=(N, 8))
    # Far wider than the prior's centre in one layer, far narrower in the other.
    y = x @ np.concatenate([[3.5, -2.5], 0.15 * rng.normal(size=6)]) + NOISE * rng.normal(size=N)
    return x.astype(np.float32), y.astype(np.float32)


def model(**more):
    prior = priors.hierarchical(MEAN, SD)
    return from_flax(TwoLayers(), data()[0], likelihoods.gaussian(NOISE), prior, **more)


@cache
def reference():
    """Evidence, and means and standard deviations of the log-scales and the weights, by quadrature."""
    x, y = (part.astype(np.float64) for part in data())
    design = np.column_stack([x[:, :2], np.ones(N), x[:, 2:]])
    precision, projected = design.T @ design / NOISE**2, design.T @ y / NOISE**2
    t, spacing = np.linspace(-6, 6, 241, retstep=True)
    t_few, t_many = (values.ravel() for values in np.meshgrid(t, t, indexing="ij"))
    both = np.stack([t_few, t_many], axis=1)
    variance = np.exp(2 * (MEAN + SD * both))[:, LAYER] / FAN_IN
    covariance = np.linalg.inv(precision + np.eye(9) / variance[:, None, :])
    mean = covariance @ projected
    log_z = (
        -0.5 * N * np.log(2 * np.pi * NOISE**2)
        - 0.5 * y @ y / NOISE**2
        + 0.5 * mean @ projected
        + 0.5 * np.linalg.slogdet(covariance)[1]
        - 0.5 * np.log(variance).sum(axis=1)
    )
    log_joint = log_z - 0.5 * (both**2).sum(axis=1) - np.log(2 * np.pi) + 2 * np.log(spacing)
    log_evidence = np.logaddexp.reduce(log_joint)
    p = np.exp(log_joint - log_evidence)
    means = np.concatenate([p @ both, p @ mean])
    seconds = np.concatenate([p @ both**2, p @ (mean**2 + np.diagonal(covariance, axis1=1, axis2=2))])
    sds = np.sqrt(seconds - means**2)
    about = {"t": slice(0, 2), "weights": slice(2, None)}
    found = {name: {"mean": means[part], "sd": sds[part]} for name, part in about.items()}
    return {"quantities": found, "log_evidence": float(log_evidence)}


def quantities(result):
    t, params = result.sampled["t"], result.params
    weights = [params["few"]["kernel"], params["many"]["bias"], params["many"]["kernel"]]
    return {
        "t": np.stack([t["few"], t["many"]], axis=1).astype(np.float64),
        "weights": np.concatenate([np.reshape(w, (len(w), -1)) for w in weights], axis=1).astype(np.float64),
    }


def through_the_chain_rule():
    """The same model, whose gradients are taken by code that knows the weights only, as native code does."""
    plain = from_flax(TwoLayers(), data()[0], likelihoods.gaussian(NOISE), priors.normal())
    unravel = flattened(plain.joint_prior).unravel
    likelihood = xla_likelihood(plain.log_likelihood, unravel, 20, 10_000)

    def outputs(particles, x):
        return jax.vmap(lambda flat: plain.outputs(unravel(flat), x))(particles)

    return model(native=lambda: FastCode(likelihood, outputs, "by hand"))


@pytest.mark.slow
@pytest.mark.parametrize("gradients", ["xla", "native"])
def test_posterior_scales_and_evidence_are_those_of_quadrature(gradients):
    results = []
    for seed in SEEDS:
        found = run(through_the_chain_rule(), data(), seed=seed, gradients=gradients, progress=False)
        assert found.diagnostics == [] and found.metrics["gradients"] == gradients
        values = quantities(found)
        mean, sd = ({name: f(v, axis=0) for name, v in values.items()} for f in (np.mean, np.std))
        results.append(Result(mean, sd, found.log_evidence, found.log_evidence_error))
    found = accuracy(results, reference())
    assert found.mean_error < 0.1
    assert found.sd_error < 0.1
    assert found.n_covered >= 8
    assert found.log_evidence_rmse < 0.4


@pytest.fixture(scope="module")
def result():
    return run(model(), data(), SamplerConfig(particles=300), test=data(), progress=False)


def test_params_are_the_weights_and_sampled_what_they_are_made_of(result):
    t, z = result.sampled["t"], result.sampled["z"]
    assert {name: leaf.shape for name, leaf in t.items()} == {"few": (300,), "many": (300,)}
    for layer, fan_in in (("few", 2), ("many", 6)):
        scale = np.exp(MEAN + SD * np.asarray(t[layer])) / np.sqrt(fan_in)
        for name, weights in result.params[layer].items():
            expected = scale.reshape(-1, *[1] * (weights.ndim - 1)) * np.asarray(z[layer][name])
            np.testing.assert_allclose(weights, expected, rtol=1e-5)
    assert list(result.summary())[:2] == ["few.kernel[0, 0]", "few.kernel[1, 0]"]


def test_predictions_and_scores_are_those_of_the_weights(result):
    x, y = data()
    prediction = result.predict(x)
    means = [
        TwoLayers().apply({"params": jax.tree.map(lambda a, j=j: a[j], result.params)}, x) for j in range(300)
    ]
    np.testing.assert_allclose(prediction.mean, np.mean(means, axis=0)[:, 0], atol=1e-4)
    rmse = np.sqrt(np.mean((prediction.mean - y) ** 2))
    assert result.metrics["test_rmse"] == pytest.approx(rmse, rel=1e-4)


def test_a_saved_result_has_both_with_and_without_the_model(result, tmp_path):
    result.save(tmp_path / "r.npz")
    x, _ = data()
    for given in ((), (model(), data())):
        found = Posterior.load(tmp_path / "r.npz", *given)
        for one, other in ((found.params, result.params), (found.sampled, result.sampled)):
            jax.tree.map(np.testing.assert_array_equal, one, other)
    np.testing.assert_array_equal(found.predict(x).mean, result.predict(x).mean)
    plain = dataclasses.replace(
        model(), prior=priors.fit(priors.normal(), jax.eval_shape(lambda: _one(result)))
    )
    with pytest.raises(
        BadInput, match="has 9 parameters made of 11 numbers per particle, but the model 9 par"
    ):
        Posterior.load(tmp_path / "r.npz", plain)


def _one(result):
    return jax.tree.map(lambda leaf: leaf[0], result.params)


def test_resampling_keeps_weights_and_scales_together(result):
    fewer = result.resample(40)
    for layer, t in fewer.sampled["t"].items():
        place = np.searchsorted(np.sort(result.sampled["t"][layer]), t)
        j = np.argsort(result.sampled["t"][layer])[place]
        np.testing.assert_array_equal(fewer.params[layer]["kernel"], result.params[layer]["kernel"][j])


@pytest.mark.slow
def test_an_extended_posterior_is_that_of_all_data():
    x, y = data()
    first = run(model(), (x[:30], y[:30]), progress=False)
    later = first.extend(x[30:], y[30:], progress=False)
    assert later.diagnostics == []
    truth = reference()
    assert abs(later.log_evidence - truth["log_evidence"]) < 4 * later.log_evidence_error
    for name, values in quantities(later).items():
        mean, sd = truth["quantities"][name]["mean"], truth["quantities"][name]["sd"]
        assert np.max(np.abs(values.mean(axis=0) - mean) / sd) < 0.25


def test_part_of_a_model_may_have_it():
    shapes = {"net": {"dense": {"kernel": np.zeros((4, 2)), "bias": np.zeros(2)}}, "shift": np.zeros(3)}
    prior = priors.fit({"net": priors.hierarchical(), "shift": priors.normal()}, shapes)
    drawn = prior.sample(jax.random.key(0))
    assert set(drawn["net"]) == {"t", "z"} and drawn["shift"].shape == (3,)
    made = prior.transform(drawn)
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(np.shape, shapes)
    scale = np.exp(0.7 + 0.7 * drawn["net"]["t"]["dense"]) / 2
    np.testing.assert_allclose(
        made["net"]["dense"]["bias"], scale * drawn["net"]["z"]["dense"]["bias"], rtol=1e-6
    )


@pytest.mark.parametrize("values", [(np.nan, 0.7), (0.7, 0.0), (0.7, np.inf)])
def test_log_scales_that_no_prior_has_are_refused(values):
    with pytest.raises(BadInput, match="both must be finite, and sd above 0: 0.7 and 0.7 are"):
        priors.hierarchical(*values)


def test_without_layers_it_is_refused():
    with pytest.raises(BadInput, match="need the layers of a Flax module: use from_flax"):
        run(
            Model(lambda p, x: x[:, 0], likelihoods.gaussian(1.0), priors.hierarchical()),
            data(),
            progress=False,
        )
