"""What the README shows does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest

from smcda import cli
from smcda.data.mnist import DATASETS
from smcda.models.lenet import MODELS
from smcda.smc.kernels import KERNELS
from smcda.smc.resampling import RESAMPLERS
from smcda.smc.schedules import SCHEDULES

README = (Path(__file__).parents[2] / "README.md").read_text()


def example():
    (code,) = re.findall(r"```python\n(import jax.*?)```", README, re.DOTALL)
    return code


def test_the_example_of_an_own_model_finds_its_parameters():
    found = {}
    exec(example(), found)
    posterior = found["posterior"]
    slope = posterior.weights @ posterior.parameters["slope"]
    intercept = posterior.weights @ posterior.parameters["intercept"]
    np.testing.assert_allclose([*slope, intercept], [0.5, -0.3, 1.0], atol=0.1)
    assert np.isfinite(posterior.log_evidence)


def test_the_help_names_every_choice(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in (*SCHEDULES, *KERNELS, *RESAMPLERS, *MODELS, "current", "previous"):
        assert name in text
    with pytest.raises(SystemExit):
        cli.main(["data", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in DATASETS)
