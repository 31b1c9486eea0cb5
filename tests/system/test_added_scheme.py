"""A scheme added in one file of the package is known to the command line, the config and the figures."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import plot_cost
import plot_schedules
import pytest
from helpers.project_copy import copy_project, edited, run_snakemake
from lib.style import read_traces

pytestmark = pytest.mark.system

FILE = Path("smcda", "smc", "schedules", "fixed.py")
SCHEME = '''

def doubling(args: ScheduleArgs) -> BatchPlan:
    """``M_k = min(C 2^k, N)``."""
    size = np.minimum(args.initial_batch * 2 ** np.arange(args.iterations), args.n_data)
    return BatchPlan(size, np.zeros_like(size, bool))


FIXED["doubling"] = doubling
'''
CONFIG = ["datasets=[mnist]", "kernels=[ld]", "seeds=[0]"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = copy_project(tmp_path_factory.mktemp("scheme"))
    with edited(folder / FILE, new=SCHEME):
        yield folder


def test_the_help_names_it(project):
    command = [sys.executable, "-m", "smcda.cli", "run", "--help"]
    environment = os.environ | {"PYTHONPATH": str(project)}
    text = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "doubling" in text


def test_a_config_that_names_another_is_told_of_it(project):
    refused = run_snakemake(project, "figures", "-n", config=[*CONFIG, "schemes=[trebling]"])
    assert refused.returncode != 0
    assert "schemes/0 is 'trebling', but must be 'constant'" in refused.stdout + refused.stderr
    assert "'doubling'" in refused.stdout + refused.stderr


def test_the_config_takes_it_and_figures_show_it(project):
    built = run_snakemake(project, "figures", config=[*CONFIG, "schemes=[linear,doubling]"])
    assert built.returncode == 0, built.stdout + built.stderr
    out = project / "results" / "tiny"
    assert {file.name for file in out.glob("figures/*.png")} >= {"schedules.png", "cost.png"}
    run = {"dataset": "mnist", "kernel": "ld", "seed": 0}
    runs = [run | {"scheme": scheme} for scheme in ("linear", "doubling")]
    files = [out / "runs" / "mnist" / run["scheme"] / "ld" / "seed-0" / "trace.csv" for run in runs]
    panels = plot_schedules.draw(read_traces(runs, files)).axes
    assert [panel.get_title() for panel in panels] == ["Linear", "Doubling"]
    assert list(panels[1].lines[-1].get_ydata()) == [20, 40, 80, *[100] * 7]
    (legend,) = plot_cost.draw(pd.read_csv(out / "summary.csv")).legends
    assert "Doubling" in [text.get_text() for text in legend.get_texts()]
