"""Runs that are bad on purpose print the lines that docs/diagnostics.md says they print."""

import ast
import re
from pathlib import Path

import pytest
from statistical.problems import PROBLEMS

from smcda import sample
from smcda.config import SamplerConfig
from smcda.errors import Diverged

pytestmark = pytest.mark.system

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()
ROWS = [
    (ast.literal_eval(settings), re.findall(r"`(\w+)`", lines))
    for settings, lines in re.findall(r"^\| `(\{.*\})` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
]


def printed(settings):
    problem = PROBLEMS["poisson"]
    try:
        found = sample(problem.log_likelihood, problem.prior, *problem.data(), SamplerConfig(**settings))
    except Diverged:
        return ["Diverged"]
    return [diagnostic.name for diagnostic in found.diagnostics]


def test_the_page_has_rows():
    assert len(ROWS) > 10


@pytest.mark.parametrize(("settings", "names"), ROWS, ids=str)
def test_a_run_prints_what_the_page_says(settings, names):
    assert printed(settings) == names
