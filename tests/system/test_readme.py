"""What the README shows does what it says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.accuracy import reference

from smcda import cli
from smcda.data.mnist import DATASETS
from smcda.models.lenet import MODELS
from smcda.smc.kernels import KERNELS
from smcda.smc.resampling import RESAMPLERS
from smcda.smc.schedules import SCHEDULES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def example():
    (code,) = re.findall(r"```python\n(import jax.*?)```", README, re.DOTALL)
    return code


def test_the_example_finds_the_known_posterior_and_evidence(capsys):
    found = {}
    exec(example(), found)
    posterior, known = found["posterior"], reference("poisson")
    for name, truth in known["quantities"].items():
        values = np.asarray(posterior.params[name]).reshape(len(posterior.weights), -1)
        assert np.all(np.abs(posterior.weights @ values - truth["mean"]) < 0.1 * np.array(truth["sd"]))
    error = abs(posterior.log_evidence - known["log_evidence"])
    assert error < 0.4
    assert error < 3 * posterior.log_evidence_error
    assert posterior.diagnostics == []

    printed = capsys.readouterr().out
    assert str(posterior.summary()) in printed
    assert f"log evidence {posterior.log_evidence}" in printed
    assert f"gives {known['log_evidence']:.2f}" in README, "the value that the text compares with"


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


@pytest.mark.system
@pytest.mark.parametrize("misspelt", [False, True])
def test_an_editor_accepts_the_example_and_nothing_misspelt(tmp_path, misspelt):
    call = "sample(log_likelihood, prior, x, y"
    assert call in example()
    file = tmp_path / "example.py"
    code = example().replace(call, f"{call}, sed=1") if misspelt else example()
    file.write_text("# pyright: strict\n" + code)
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    messages = [each["message"] for each in found["generalDiagnostics"]]
    assert (messages != []) == misspelt
    assert any('"sed"' in message for message in messages) == misspelt
