"""The Python of every page runs as it stands, and prints what the page says it prints."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_pages = load("run_pages")
PAGES = sorted(
    path.relative_to(DOCS) for path in DOCS.rglob("*.md") if run_pages.BLOCK.search(path.read_text())
)


@pytest.mark.parametrize("page", [str(page) for page in PAGES])
def test_the_code_of_a_page_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names = (DOCS / page).read_text(), {"__name__": "page"}
    n_marked = text.count("```python\n")
    ran = list(run_pages.run_blocks(text, names))
    assert len(ran) == n_marked, "a block that is indented is not run"
    for block in ran:
        if block.shown is not None:
            assert block.shown.strip(), f"shows no output: run tools/run_pages.py docs/{page}"
            assert_alike(block.printed, block.shown)
    CHECKS.get(page, lambda folder, names: None)(tmp_path, names)


def assert_alike(printed, shown):
    """The same words, and the same numbers but for Monte Carlo error and another machine's rounding."""
    words = [NUMBER.sub("#", text).split() for text in (printed, shown)]
    assert words[0] == words[1], printed
    found, wanted = (
        [float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (printed, shown)
    )
    np.testing.assert_allclose(found, wanted, rtol=0.25, atol=0.1, err_msg=printed)


def check_own_models(folder, found):
    result, later, prediction = found["result"], found["later"], found["prediction"]
    assert {path.name for path in (folder / "sine").glob("*.*")} >= {"metrics.json", "posterior.npz"}
    truth = np.sin(2 * found["x"][250:, 0])
    # Within the noise of 0.2, which the predictive knows of.
    assert np.sqrt(np.mean((prediction.mean - truth) ** 2)) < 0.15
    assert 0.15 < np.mean(prediction.sd) < 0.35
    assert 0.18 < result.metrics["test_rmse"] < 0.32
    assert len(later.trace["beta"]) < len(result.trace["beta"])
    assert later.data[0].shape == (300, 1)


CHECKS = {"own-models.md": check_own_models}


def test_what_a_page_prints_is_compared():
    assert_alike("slope 1.23 +- 0.1, 1,200 moves", "slope 1.25 +- 0.1, 1,180 moves")
    with pytest.raises(AssertionError):
        assert_alike("slope 1.23", "slope 2.23")
    with pytest.raises(AssertionError):
        assert_alike("slope 1.23", "level 1.23")


def test_every_name_of_the_tables_exists():
    from smcda import Result, likelihoods, priors

    page = (DOCS / "own-models.md").read_text()
    for name in re.findall(r"`(\w+)\([^`]*\)` \|", page):
        assert hasattr(likelihoods, name) or name in ("sample", "run"), name
    for name in re.findall(r"`priors\.(\w+)", page):
        assert hasattr(priors, name), name
    for name in re.findall(r"`result\.(\w+)\(", page):
        assert hasattr(Result, name), name
