"""At laptop scale the study shows what it shows at full data. Minutes, so only by ``pytest -m system``."""

import os
import subprocess

import pytest
from helpers.project_copy import SNAKEMAKE, copy_project
from lib.claims import Study, hmc_above_ld
from lib.labels import SCORES
from lib.published import PUBLISHED
from lib.tables import number, read_cells

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The cheapest schemes, and the full batch that one of them is to come close to."""
    folder = copy_project(tmp_path_factory.mktemp("laptop"))
    schemes = "schemes=[constant,constant_to_refine,full_batch]"
    command = [SNAKEMAKE, "summary", "--cores", "2", "--config", "scale=laptop", schemes]
    result = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, check=False)
    assert result.returncode == 0
    results = folder / "results" / "laptop"
    cells, runs = read_cells(results / "summary.csv"), read_cells(results / "runs.csv", "seed")
    return Study(cells, read_cells(PUBLISHED), runs)


@pytest.mark.parametrize("metric", SCORES)
def test_hmc_is_above_ld_in_every_scheme_on_both_datasets(study, metric):
    claim = hmc_above_ld(study, metric, metric)
    assert all(claim.holds)
    assert len(claim.holds) + claim.n_open == 6
    assert metric != "test_log_likelihood" or claim.n_open == 0
    for dataset, scheme, _ in study.cells.index:
        hmc, ld = study.pair((dataset, scheme, "hmc"), (dataset, scheme, "ld"), metric)
        assert hmc > ld, (dataset, scheme)


def test_constant_to_refine_comes_close_to_full_batch_for_a_fraction_of_its_gradients(study):
    for dataset, kernel in {(key[0], key[2]) for key in study.cells.index}:
        constant, refined, full = (
            {
                name: number(study.cells, (dataset, scheme, kernel), f"{name}_mean")
                for name in ("test_log_likelihood", "gradient_evaluations")
            }
            for scheme in ("constant", "constant_to_refine", "full_batch")
        )
        left, at_first = (
            full["test_log_likelihood"] - each["test_log_likelihood"] for each in (refined, constant)
        )
        assert left < 0.7 * at_first, (dataset, kernel)
        assert 4 * refined["gradient_evaluations"] < full["gradient_evaluations"], (dataset, kernel)
