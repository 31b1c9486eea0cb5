"""Sampling needs the core dependencies only: neither the workflow's packages nor those of other extras."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.results import files

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
CORE = {"jax", "flax", "orbax-checkpoint", "filelock", "numpy", "rich", "jaxtyping", "optax"}
BLOCKED = """
import sys

class Blocked:
    names = {"snakemake", "pandas", "matplotlib", "jinja2", "pydantic", "tensorflow_datasets", "arviz"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Blocked())
"""
SAMPLE = """
import numpy as np
from smcda import Model, Result, SamplerConfig, likelihoods, priors, run
x = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
y = x @ np.float32([1.0, -1.0])
model = Model(lambda p, x: x @ p["w"], likelihoods.gaussian(0.3), {"w": priors.normal(np.zeros(2))})
result = run(model, (x, y), SamplerConfig(particles=50), out="out", progress=False)
again = Result.load("out/posterior.npz", model)
assert np.array_equal(again.predict(x).mean, result.predict(x).mean)
assert abs(np.array(again.params["w"]).mean(axis=0) - [1, -1]).max() < 0.2
"""
COMMANDS = """
from smcda.cli import main
assert main(["data", "mnist", "--bundled", "--train", "60", "--test", "20", "--out", "mnist.npz"]) == 0
options = "--particles 3 --iterations 3 --batch-size 20 --step-size 0.01 --quiet".split()
assert main(["run", "--data", "mnist.npz", "--model", "lenet5", "--out", "run", *options]) == 0
assert main(["data", "mnist", "--out", "full.npz"]) == 2
"""


def test_the_core_dependencies_are_few():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {name.partition(">")[0] for name in declared} == CORE


def test_sampling_saving_loading_and_predicting_need_no_more(tmp_path):
    subprocess.run([sys.executable, "-c", BLOCKED + SAMPLE], cwd=tmp_path, check=True)
    assert files(tmp_path / "out") == ["metrics.json", "posterior.npz", "trace.csv"]


def test_the_commands_need_no_more_for_bundled_images_and_say_what_the_others_need(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + COMMANDS], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "pip install 'smcda[workflow]'" in done.stderr
    assert (tmp_path / "run" / "metrics.json").exists() and not (tmp_path / "full.npz").exists()
