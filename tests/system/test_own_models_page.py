"""The code of docs/own-models.md runs as it stands, and does what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.system

PAGE = (Path(__file__).parents[2] / "docs" / "own-models.md").read_text()


def test_the_regression_from_start_to_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, found)
    result, later, prediction = found["result"], found["later"], found["prediction"]
    assert {path.name for path in (tmp_path / "sine").glob("*.*")} >= {"metrics.json", "posterior.npz"}
    truth = np.sin(2 * found["x"][250:, 0])
    # Within the noise of 0.2, which the predictive knows of.
    assert np.sqrt(np.mean((prediction.mean - truth) ** 2)) < 0.15
    assert 0.15 < np.mean(prediction.sd) < 0.35
    assert 0.18 < result.metrics["test_rmse"] < 0.32
    assert len(later.trace["beta"]) < len(result.trace["beta"])
    assert later.data[0].shape == (300, 1)


def test_every_name_of_the_tables_exists():
    from smcda import Result, likelihoods, priors

    for name in re.findall(r"`(\w+)\([^`]*\)` \|", PAGE):
        assert hasattr(likelihoods, name) or name in ("sample", "run"), name
    for name in re.findall(r"`priors\.(\w+)", PAGE):
        assert hasattr(priors, name), name
    for name in re.findall(r"`result\.(\w+)\(", PAGE):
        assert hasattr(Result, name), name
