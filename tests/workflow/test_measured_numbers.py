"""The numbers that the text takes from the kept study."""

import re

import pandas as pd
import pytest
from cells import read_cells
from helpers.made_up_study import keep, make_curvature, make_study
from measured_numbers import curvature_numbers, measured_numbers, prior_numbers, unchanged, wander, within
from verify import PUBLISHED


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


def test_curvature_is_set_beside_what_leapfrog_can_bear(study, tmp_path):
    """4 / (0.002^2 60,000) is 16.7."""
    into = tmp_path / "measured"
    make_curvature(study, "ld", 1, 2.0, 3.0)
    assert keep(study, into, "abc").returncode == 0
    make_curvature(study, "ld", 0, 1.5, 17.5)
    assert keep(study, into, "abc").returncode == 0
    table = pd.read_csv(into / "curvature.csv")
    assert table["eigenvalue"].tolist() == [1.5, 17.5, 2.0, 3.0]
    runs = pd.DataFrame({"step_size": [0.002], "n_train": [60_000]})
    numbers = curvature_numbers(table, [("mnist", "ld"), ("mnist", "hmc")], runs)
    assert numbers == {
        "curvature/limit": "16.7",
        "curvature/limit_3h": "1.9",
        "curvature/images": "2\\,000",
        "curvature/mnist/ld": "1.5 to 17.5",
        "curvature/mnist/ld/beyond": "in 1 of the 4 looks",
        "curvature/mnist/hmc": "n/a",
        "curvature/mnist/hmc/beyond": "in none of the looks, because none can be compared",
    }


@pytest.mark.parametrize("with_decisions", [True, False])
def test_every_measured_number_of_the_text_is_defined(study, tmp_path, with_decisions):
    into = tmp_path / "measured"
    assert keep(study, into, "abc").returncode == 0
    beside = {name: into / f"{name}.csv" for name in ("decisions", "curvature")} if with_decisions else {}
    numbers = measured_numbers(into / "runs.csv", into / "summary.csv", read_cells(PUBLISHED), **beside)
    text = (PUBLISHED.parents[2] / "paper" / "main.tex").read_text()
    used = {key for key in re.findall(r"\\val\{([^}#]+)\}", text) if key.startswith("measured/")}
    assert len(used) > 15
    assert used - set(numbers) == set()
    assert numbers["measured/verify/test_accuracy"] == "in none of the 2 cells that were run"
    assert numbers["measured/verify/full_batch / constant, seconds"] == "it holds (in 1 of 1)"
    # 92.0 is within a point of 92.46, -0.3 not within 0.02 of -0.2726.
    within = (
        "in 1 of the 2 scores" if with_decisions else "in none of the scores, because none can be compared"
    )
    assert numbers["measured/decision/standardised/within"] == within
    found = numbers["measured/decision/mnist/standardised/ld/test_accuracy"]
    assert found == (r"\ensuremath{92.00}" if with_decisions else "n/a")


def test_wander_is_how_far_apart_the_last_looks_along_one_run_are():
    rows = [("constant", 0, k, accuracy) for k, accuracy in enumerate((10, 90, 91, 92, 93, 94.5))]
    rows += [("constant", 1, k, 80 + k) for k in reversed(range(3))] + [
        ("linear", 0, 0, 1),
        ("linear", 0, 1, 99),
    ]
    looks = pd.DataFrame(rows, columns=["scheme", "seed", "iteration", "test_accuracy"])
    looks = looks.assign(dataset="mnist", kernel="ld")
    assert wander(looks, "mnist", "ld") == "2.0 to 4.5"
    assert wander(looks, "mnist", "hmc") == "n/a"


def test_the_other_prior_is_compared_in_the_cells_that_both_studies_have():
    published = read_cells(PUBLISHED)

    def as_published(key, **changes):
        return published[key] | {name: str(value) for name, value in changes.items()}

    constant, refined = ("mnist", "constant", "ld"), ("mnist", "constant_to_refine", "ld")
    ours = {constant: as_published(constant), refined: as_published(refined)}
    other = {constant: as_published(constant, test_accuracy_mean=80.5)}
    numbers = prior_numbers(ours, other, published)
    assert numbers["fan_in_prior/within"] == "in 1 of the 2 scores"
    assert numbers["fan_in_prior/beside"] == "in all 2 scores"
    assert numbers["fan_in_prior/mnist/constant/ld/test_accuracy"] == r"\ensuremath{80.50}"
    assert numbers["fan_in_prior/mnist/constant_to_refine/ld/test_accuracy"] == "n/a"
    nothing = prior_numbers(ours, {}, published)
    assert nothing["fan_in_prior/within"] == "in none of the scores, because none can be compared"


@pytest.mark.parametrize(
    ("seeds", "found"), [("0", "in none of the 2 scores"), ("0 1", "in 1 of the 2 scores")]
)
def test_a_variant_is_set_beside_the_runs_with_its_own_seeds(seeds, found):
    """Seed 0 has 90 %, both together 92 %; 92.46 +- 1 is asked for."""
    runs = pd.DataFrame({"seed": [0, 1, 1], "scheme": ["constant", "constant", "linear"]})
    runs = runs.assign(
        dataset="mnist", kernel="ld", test_accuracy=[90.0, 94.0, 0.0], test_log_likelihood=-1.0
    )
    row = {"dataset": "mnist", "kernel": "ld", "seeds": seeds, "test_accuracy_mean": 50.0}
    assert within([unchanged(runs, row)], read_cells(PUBLISHED)) == found
