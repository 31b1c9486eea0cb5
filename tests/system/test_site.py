"""The documentation site builds offline without a warning, fetches nothing when read, and is not stale."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    # No address is reached through a proxy that is not there.
    dead = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=os.environ | dead, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_pages_are_there(site):
    for page in (
        "",
        "start/",
        "tutorials/extend/",
        "cli/",
        "repository/results/",
        "repository/smcda/smc/sampler.py/",
    ):
        assert (site / page / "index.html").exists(), page


def test_pages_fetch_nothing_from_elsewhere(site):
    """Links may lead anywhere; scripts, styles, fonts and pictures are the site's own."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        fetched = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?(https?:)?//", text)
        fetched += re.findall(r"<link(?![^>]*rel=[\"']?canonical)[^>]*\shref=[\"']?(https?:)?//", text)
        assert not fetched, page


def test_functions_have_their_docstrings(site):
    text = (site / "api" / "index.html").read_text()
    for name in (
        "sample",
        "run",
        "Model",
        "Result.extend",
        "SamplerConfig",
        "likelihoods.gaussian",
        "priors.fan_in",
    ):
        assert f'id="smcda.{name}"' in text, name
    assert "without a config nothing has to be tuned" in text


def test_the_page_of_commands_is_that_of_the_parser(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from write_cli_reference import PAGE, page

    assert PAGE.read_text() == page(), "stale: run tools/write_cli_reference.py"
