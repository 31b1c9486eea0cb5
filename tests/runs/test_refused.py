"""What `run` refuses before anything is computed or written, in one line.

Arguments of a wrong type are in `system/test_wrong_types.py`.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from smcda import Model, SamplerConfig, Start, from_flax, likelihoods, priors, run, sample
from smcda.errors import BadInput
from smcda.smc.schedules.base import BatchPlan

N = 60
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = X[:, 0]
LABELS = np.arange(N) % 3
PRIOR = {"w": priors.normal(np.zeros(3))}


def predict(parameters, x):
    return x @ parameters["w"]


GAUSSIAN = likelihoods.gaussian(0.3)


def go(predict=predict, likelihood=GAUSSIAN, prior=PRIOR, data=(X, Y), config=None, **options):
    return run(Model(predict, likelihood, prior), data, config, progress=False, **options)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x)


class Misshapen(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x.reshape(7, -1))


class Exits(nn.Module):
    @nn.compact
    def __call__(self, x):
        sys.exit(4)


def classify(y=LABELS, test=None, module=None):
    model = from_flax(module or Net(), X, likelihoods.categorical(), priors.fan_in())
    return run(model, (X, y), test=test, progress=False)


def of_density(log_density):
    return {"w": priors.from_log_density(lambda key: jax.random.normal(key, (3,)), log_density)}


def drawing(draw):
    return {"w": priors.from_log_density(draw, lambda a: jnp.sum(a * 1.0))}


def planned(size):
    return SamplerConfig(scheme=lambda args: BatchPlan(size, size < 0), iterations=4, particles=5)


def exits(parameters, x):
    sys.exit(5)


CASES = {
    # Data.
    "nested lists": (lambda: go(data=(X.tolist(), Y.tolist())), r"x\[0\]\[0\] is of type float, .*asarray"),
    "a generator": (lambda: go(data=(iter(X), Y)), "x is of type .*iterator, but must be an array"),
    "one number": (lambda: go(data=(X, np.float32(3))), "y is of type float32, but must be an array"),
    "masked": (lambda: go(data=(np.ma.masked_greater(X, 1), Y)), "x has masked values"),
    "above float32": (
        lambda: go(data=(X * np.float64(1e300), Y)),
        r"x has the value .*e\+300, too large for",
    ),
    "above int32": (
        lambda: go(likelihood=likelihoods.poisson(), data=(X, np.full(N, 2**40))),
        "y has the value 1099511627776, too large for int32",
    ),
    "below int32": (lambda: go(data=(X, np.full(N, -(2**40)))), "y has the value -1099511627776, too large"),
    "object": (lambda: go(data=(X.astype(object), Y)), "x is of type object, but must be numbers"),
    "no y": (lambda: go(data=(X, None)), "likelihood gaussian: y of type NoneType, but needs one array"),
    "y of two arrays": (lambda: go(data=(X, {"a": Y, "b": Y})), "y of type dict, but needs one array"),
    "string labels": (lambda: classify(np.array(["cat", "dog", "eel"])[LABELS]), "y is of type <U3"),
    "labels from 1": (lambda: classify(LABELS + 1), "labels 1 to 3, but 3 logits"),
    # Test data, before hours of sampling rather than after.
    "test labels": (lambda: classify(test=(X, LABELS + 1)), "test labels 1 to 3, but 3 logits"),
    "negative test labels": (lambda: classify(test=(X, LABELS - 1)), "test labels -1 to 1, but 3 logits"),
    "test of two classes": (
        lambda: go(likelihood=likelihoods.bernoulli(), data=(X, LABELS // 2), test=(X, LABELS)),
        "likelihood bernoulli: test y from 0 to 2, but needs 0 or 1",
    ),
    "test counts": (
        lambda: go(likelihood=likelihoods.poisson(), data=(X, LABELS), test=(X, LABELS - 1)),
        "likelihood poisson: test y from -1 to 1",
    ),
    # Models.
    "a network that fails": (lambda: classify(module=Misshapen()), r"Misshapen of float32 \(1, 3\) failed"),
    "a network that exits": (lambda: classify(module=Exits()), "Exits of float32 .* failed: SystemExit: 4"),
    "a function that exits": (lambda: go(exits), "the model fails on float32 .*: SystemExit: 5"),
    "a list for an example": (
        lambda: from_flax(Net(), X.tolist(), likelihoods.categorical(), priors.fan_in()),
        "example_x has a float, but must be an array",
    ),
    "two outputs": (
        lambda: go(lambda p, x: (x @ p["w"], 1)),
        "likelihood gaussian: outputs of type tuple, but needs one array",
    ),
    "no outputs": (lambda: go(lambda p, x: None), "outputs of type NoneType"),
    "outputs by name": (
        lambda: go(lambda p, x: {"a": x}, likelihoods.categorical(), data=(X, LABELS)),
        "likelihood categorical: outputs of type dict",
    ),
    "complex": (
        lambda: sample(lambda p, x, y: (y - x @ p["w"]) * 1j, PRIOR, X, Y),
        "log_likelihood gives complex64, but must give floating-point numbers",
    ),
    # Priors and starts.
    "prior of text": (lambda: priors.normal(0.0, "a"), "scale of a normal prior must be numbers"),
    "scale of zero": (
        lambda: priors.normal(scale={"a": 1.0, "b": [2.0, 0.0]}),
        "is 0, but must be finite and",
    ),
    "scale below zero": (
        lambda: priors.laplace(scale=-2),
        "laplace prior is -2, but must be finite and above",
    ),
    "endless mean": (
        lambda: priors.normal(np.inf),
        "mean of a normal prior is inf, but must be finite: choose",
    ),
    "gain of zero": (
        lambda: priors.fan_in(0),
        "the gain of a fan_in prior is 0, but must be finite and above",
    ),
    "no prior": (lambda: go(prior={}), "prior is empty"),
    "nothing to sample": (lambda: go(prior={"w": priors.normal(np.zeros(0))}), "prior draws no parameters"),
    "density fails": (lambda: go(prior=of_density(lambda a: a["w"])), "log-density of the prior failed: Typ"),
    "draw fails": (lambda: go(prior=drawing(lambda key: key.no)), "drawing from the prior failed: Attribute"),
    "whole numbers": (
        lambda: go(prior=drawing(lambda key: jax.random.randint(key, (3,), 0, 3))),
        "the prior draws int32, but parameters must be floating-point numbers",
    ),
    "start fails": (lambda: go(start=Start(lambda key: key.no)), "drawing from the start failed"),
    "start of densities": (
        lambda: go(start=Start(lambda key: {"w": jax.random.normal(key, (3,))}, lambda a: a["w"])),
        r"log-density of the start gives float32 \(3,\)",
    ),
    # Options.
    "scheme of nothing": (lambda: go(config=SamplerConfig(scheme=lambda a: 3)), "gives int, but must give a"),
    "scheme fails": (lambda: go(config=SamplerConfig(scheme=lambda a: 1 / 0)), "failed: ZeroDivisionError"),
    "short plan": (lambda: go(config=planned(np.array([3, 4, 60]))), r"sizes \(3,\) .* each of 4 iterations"),
    "plan beyond the data": (lambda: go(config=planned(np.array([3, 4, 60, 61]))), "plans 3 to 61 examples"),
    "plan of nothing": (lambda: go(config=planned(np.array([0, 4, 60, 60]))), "plans 0 to 60 examples"),
    "plan of parts": (lambda: go(config=planned(np.array([1.5, 4, 60, 60]))), "whole numbers of 1 to 60"),
    "one ancestor": (
        lambda: go(config=SamplerConfig(resampling=lambda key, weights: 3, particles=20)),
        "gives int32 .*, but must give 20 whole numbers",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_nothing_is_left(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, words = CASES[case]
    with pytest.raises(BadInput, match=words) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    assert not any(tmp_path.iterdir())


def test_an_output_folder_below_a_file_is_called_by_its_own_name(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInput, match="^out .*sub can't be made"):
        go(out=tmp_path / "file" / "sub")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_arviz_that_is_not_there_is_named(monkeypatch):
    found = go(config=SamplerConfig(particles=5, max_moves=1))
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(BadInput, match=r"to_arviz needs ArviZ: pip install 'smcda\[arviz\]'"):
        found.to_arviz()
