"""Arguments of a wrong type are refused in one clear line, without the type checks that tests switch on."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

CODE = """
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from smcda import BadInput, Model, Result, SamplerConfig, Start, from_flax, likelihoods, priors, run, sample

x = np.ones((9, 3), np.float32)
y = x[:, 0]
prior = {"w": priors.normal(np.zeros(3))}
gaussian = likelihoods.gaussian(1.0)

def predict(p, x):
    return x @ p["w"]

def go(predict=predict, likelihood=gaussian, prior=prior, config=None, **options):
    return run(Model(predict, likelihood, prior), (x, y), config, progress=False, **options)

def density(p, x, y):
    return y - predict(p, x)

each = {"w": priors.from_log_density(lambda key: jax.random.normal(key, (3,)), lambda a: -a**2)}
model = Model(predict, gaussian, prior)
result = go(config=SamplerConfig(particles=5, max_moves=1))
result.save("result.npz")

for call, words in (
    (lambda: run(predict, (x, y)), "model is of type function, but must be a Model"),
    (lambda: run(model, x), "data must be a pair (x, y)"),
    (lambda: run(model, [x, y]), "data must be a pair (x, y)"),
    (lambda: run(model, (x, y), test=x), "test must be a pair (x, y)"),
    (lambda: from_flax(3, x, likelihoods.poisson(), priors.normal()), "int is not a Flax module"),
    (lambda: from_flax(nn.Dense, x, gaussian, priors.normal()), "Dense is a class, but must be a module of"),
    (lambda: go(None), "predict is of type NoneType, but must be a function of (parameters, x)"),
    (lambda: go(likelihood=None), "likelihood is of type NoneType, but must be one of smcda.likelihoods"),
    (lambda: go(likelihood=likelihoods.gaussian), "likelihood is of type function, but must be one of"),
    (lambda: sample(model, prior, x, y), "log_likelihood is of type Model, but must be a function"),
    (lambda: likelihoods.gaussian("a"), "the scale of a gaussian likelihood is 'a', but must be a number"),
    (lambda: likelihoods.gaussian(np.ones(2)), "the scale of a gaussian likelihood is array"),
    (lambda: go(prior={"tilt": 3}), "prior is of type int, but must be one of smcda.priors"),
    (lambda: go(prior=[prior]), "prior is of type list, but must be one of smcda.priors"),
    (lambda: go(prior=each), "the log-density of the prior gives float32 (3,), but must give one"),
    (lambda: go(start=predict), "start is of type function, but must be a Start(sample, log_density)"),
    (lambda: go(config={"particles": 3}), "config is of type dict, but must be a SamplerConfig"),
    (lambda: go(config=SamplerConfig(kernel=3)), "kernel int is not"),
    (lambda: go(callbacks=predict), "callbacks must be a list of functions: [function]"),
    (lambda: go(callbacks=[3]), "callbacks must be a list of functions: [function]"),
    (lambda: result.resample(1.5), "n is 1.5, but must be a whole number of at least 1: 5 is the default"),
    (lambda: result.resample("all"), "n is 'all', but must be a whole number"),
    (lambda: Result.load("result.npz", 3), "model is of type int, but must be the Model that was sampled"),
    (lambda: Result.load("result.npz", model, x), "data must be a pair (x, y)"),
    (lambda: priors.fan_in("wide"), "the gain of a fan_in prior must be numbers: could not convert string"),
    (lambda: go(seed="1"), "seed is '1', but must be a whole number"),
):
    try:
        call()
    except BadInput as error:
        assert words in str(error) and "\\n" not in str(error), error
    else:
        raise AssertionError(words)
"""


def test_wrong_types_from_python_are_one_clear_line(tmp_path):
    subprocess.run([sys.executable, "-c", CODE], check=True, cwd=tmp_path)
