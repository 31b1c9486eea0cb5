"""The reference data are whole, and still show what the paper says about them."""

import pandas as pd
import pytest
from compare_published import PUBLISHED, check_cell, compare, read_study, report
from helpers.study import REFERENCE
from lib.labels import SCORES
from lib.reference import PRIORS, mean_scores, read_reference, select_study
from lib.tables import read_cells
from select_reference import summarise_reference

RUN = ["dataset", "scheme", "kernel", "seed", "ablation", "prior_scale", "batch_norm", "particles"]


@pytest.fixture(scope="module")
def data():
    names = ("runs", "traces", "curvature", "aggregates", "ablations")
    return {name: read_reference(REFERENCE / f"{name}.csv") for name in names}


@pytest.fixture(scope="module")
def published():
    return read_cells(PUBLISHED)


def accuracy(data, ablation, dataset, kernel):
    runs = data["runs"]
    own = runs[runs["ablation"] == ablation] if ablation else select_study(runs)
    own = own[(own["prior_scale"] == "0.1") & (own["scheme"] == "constant")]
    return own[(own["dataset"] == dataset) & (own["kernel"] == kernel)]["test_accuracy"].mean()


def test_every_row_names_one_run(data):
    runs = data["runs"]
    assert not runs.duplicated(RUN).any()
    assert not data["traces"].duplicated([*RUN, "iteration"]).any()
    assert not data["curvature"].duplicated([*RUN, "iteration"]).any()
    keys = set(runs[RUN].itertuples(index=False, name=None))
    for name in ("traces", "curvature"):
        assert set(data[name][RUN].itertuples(index=False, name=None)) <= keys
    assert runs[[*RUN, *SCORES, "machine", "python", "commit", "step_size"]].notna().all(axis=None)
    assert set(runs["ablation"]) <= set(data["ablations"]["ablation"])


def test_no_mean_is_kept_whose_runs_are_there(data):
    key = ["dataset", "kernel", "ablation", "prior_scale"]
    for row in data["aggregates"].to_dict("records"):
        same = (data["runs"][key] == [row[name] for name in key]).all(axis=1)
        assert same.sum() < row["n_seeds"]


def test_the_verdict_on_the_main_study(data, published, tmp_path):
    runs = select_study(data["runs"])
    summarise_reference(runs, list(published.index)).to_csv(tmp_path / "summary.csv")
    runs.to_csv(tmp_path / "runs.csv")
    checks = compare(read_study(tmp_path / "summary.csv"))
    assert report(checks).endswith("21 pass, 9 FAIL, 24 not run")
    failed = [check.what for check in checks if check.outcome == "FAIL" and not check.what.endswith(SCORES)]
    assert failed == ["schemes in the published order", "full batch / constant-to-refine, seconds"]


def test_seconds_of_two_machines_make_no_speed_up(data, published):
    runs = select_study(data["runs"])
    constant = ("mnist", "constant", "ld")

    def speedups(runs):
        summary = summarise_reference(runs, list(published.index)).set_index(["dataset", "scheme", "kernel"])
        return summary.loc[constant, ["speedup_seconds", "speedup_gradients"]].notna().tolist()

    assert speedups(runs) == [True, True]
    full_batch = runs["scheme"] == "full_batch"
    assert speedups(runs.assign(machine=runs["machine"].mask(full_batch, "another"))) == [False, True]


def test_all_particles_descend_from_one_by_the_first_evaluation_and_at_the_end(data):
    traces = select_study(data["traces"])
    assert (traces[traces["scheme"] == "constant"]["unique_ancestors"] == 1).all()
    assert (traces[traces["iteration"] == traces["iteration"].max()]["unique_ancestors"] == 1).all()


def test_the_prior_of_the_main_study_fits_better(data, published):
    cells = [mean_scores(select_study(data["runs"], prior)) for prior in PRIORS]
    both = cells[0].index.intersection(cells[1].index)
    passed = [
        sum(check_cell(c, published, key, s).outcome == "pass" for key in both for s in SCORES) for c in cells
    ]
    assert passed[0] > passed[1]


def test_what_the_text_says_about_step_sizes(data):
    for dataset in ("mnist", "fashion_mnist"):
        ld, hmc = (accuracy(data, "", dataset, kernel) for kernel in ("ld", "hmc"))
        assert ld < accuracy(data, "ld_equal_gradients", dataset, "ld") < hmc
    assert accuracy(data, "ld_3h", "mnist", "ld") < 15
    assert accuracy(data, "ld_3h", "fashion_mnist", "ld") < accuracy(data, "", "fashion_mnist", "ld")
    assert accuracy(data, "ld_2h", "mnist", "ld") > accuracy(data, "", "mnist", "ld")
    assert accuracy(data, "ld_2h", "fashion_mnist", "ld") < accuracy(data, "", "fashion_mnist", "ld")
    curvature = data["curvature"]
    assert (curvature["eigenvalue"] > 4 / (9 * curvature["step_size"] ** 2 * curvature["n_train"])).all()


@pytest.mark.parametrize(("ablation", "n_pass"), [("equal_weights_32", 4), ("no_batch_norm", 0)])
def test_what_the_text_says_about_scores_within_tolerance(data, published, ablation, n_pass):
    runs = data["runs"]
    cells = mean_scores(runs[(runs["ablation"] == ablation) & (runs["prior_scale"] == "0.1")])
    checks = [check_cell(cells, published, key, score) for key in cells.index for score in SCORES]
    assert (len(checks), sum(check.outcome == "pass" for check in checks)) == (4, n_pass)


def test_only_the_main_study_is_summarised(data):
    runs = pd.concat([data["runs"], select_study(data["runs"]).assign(particles=100)])
    assert len(select_study(runs)) == len(select_study(data["runs"])) == 28
