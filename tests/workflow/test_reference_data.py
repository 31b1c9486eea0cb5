"""The reference data are whole, and still show what the paper says about them."""

import sys
from types import SimpleNamespace

import pandas as pd
import pytest
from compare_published import compare, read_study, report
from helpers.study import REFERENCE, ROOT
from lib.explanations import explanations
from lib.labels import SCORES
from lib.published import PUBLISHED, n_within
from lib.reference import RUN, STUDIES, mean_scores, read_reference, select_study
from lib.tables import read_cells
from select_reference import summarise_reference


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
    known = [*RUN, *SCORES, "machine", "python", "commit", "step_size", "weighting"]
    assert runs[known].notna().all(axis=None)
    assert (runs["weighting"] == "none").eq(runs["ablation"].str.contains("equal_weights")).all()
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
    assert report(checks).endswith("22 pass, 8 FAIL, 0 open, 24 not run")
    failed = [check.what for check in checks if check.outcome == "FAIL" and not check.what.endswith(SCORES)]
    assert failed == ["full batch / constant-to-refine, seconds"]


def test_the_tables_of_the_pages_are_those_of_the_data(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from write_reference_pages import PAGES, filled

    for page in PAGES:
        assert page.read_text() == filled(page), f"{page} is stale: run tools/write_reference_pages.py"
    sys.modules.pop("write_reference_pages")


def test_what_the_text_says_about_the_best_evaluation():
    files = {name: REFERENCE / f"{name}.csv" for name in ("runs", "traces", "ablations")}
    records = explanations(SimpleNamespace(**files, published=PUBLISHED))
    best = next(
        r for r in records if (r["explanation"], r["start"], r["batch_norm"]) == ("best", "prior", "yes")
    )
    assert best["within"] == best["of"] == "8" > best["within_without"]
    theirs, ours, last = (float(best[f"test_accuracy_sd{s}"]) for s in ("_published", "", "_without"))
    assert ours <= theirs < last / 2
    everywhere = next(r for r in records if r["explanation"] == "best_everywhere")
    gains = [int(r["within"]) - int(r["within_without"]) for r in (best, everywhere)]
    assert gains[0] == gains[1]  # the other schemes gain nothing
    alone = [r for r in records if r["explanation"] == "particle_accuracy"]
    assert all(abs(float(r["distance"]) - float(r["distance_without"])) < 0.05 for r in alone)


def test_what_the_text_says_about_the_last_evaluations(data):
    constant = select_study(data["traces"]).query("scheme == 'constant' and kernel == 'hmc'")
    last = constant.sort_values("iteration").groupby(["dataset", "seed"]).tail(5)
    accuracies = last.groupby(["dataset", "seed"])["test_accuracy"]
    assert (accuracies.count() == 5).all()
    assert (accuracies.max() - accuracies.min()).round(2).min() >= 1


def test_the_readme_says_how_many_cells_were_run(data, published):
    n_cells = len(mean_scores(select_study(data["runs"])))
    assert f"{n_cells} of {len(published)} published cells were run" in (ROOT / "README.md").read_text()


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
    cells = [mean_scores(select_study(data["runs"], made)) for made in STUDIES.values()]
    both = cells[0].index.intersection(cells[1].index)
    passed = [n_within(each.loc[both], published) for each in cells]
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
    assert (cells.size // 2, n_within(cells, published)) == (4, n_pass)


def test_only_the_main_study_is_summarised(data):
    runs = pd.concat([data["runs"], select_study(data["runs"]).assign(particles=100)])
    assert len(select_study(runs)) == len(select_study(data["runs"])) == 28
