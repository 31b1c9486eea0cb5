"""What the small-data study derives from its runs: the chosen prior, its cost, differences, health."""

import json

import numpy as np
import pandas as pd
import plot_small_data_cost
import plot_small_data_evidence
import plot_small_data_scores
import pytest
from helpers.small_runs import small_row, small_table, whole_grid
from helpers.study import REFERENCE, ROOT
from lib.small_data import COLUMNS, KEY, TOTAL, choose_priors, read_small_data, row_of
from lib.small_tables import TABLES, differences, gain, health, numbers, scores
from make_small_data_table import main as make_table

FIGURES = (plot_small_data_scores, plot_small_data_evidence, plot_small_data_cost)


def chosen(*rows):
    return choose_priors(small_table(*rows)).set_index("method")


def test_the_prior_of_largest_evidence_is_chosen_whatever_the_test_images_say():
    found = chosen(
        small_row(prior_scale="fan_in", log_evidence=-300.0, test_accuracy=99.0, test_log_likelihood=-0.01),
        small_row(prior_scale="2*fan_in", log_evidence=-200.0, test_accuracy=50.0, test_log_likelihood=-3.0),
        small_row(prior_scale="4*fan_in", log_evidence=-250.0, test_accuracy=99.0, test_log_likelihood=-0.01),
    )
    row = found.loc["smc_evidence"]
    assert (row["prior_scale"], row["test_accuracy"], row["n_tried"]) == ("2*fan_in", 50.0, 3)
    assert row[TOTAL] == 300, "what was run for the choice is part of its cost"


def test_the_choice_does_not_change_with_the_test_scores():
    table = whole_grid()
    shuffled = table.assign(
        test_accuracy=np.random.default_rng(0).permutation(table["test_accuracy"]),
        test_log_likelihood=np.random.default_rng(1).permutation(table["test_log_likelihood"]),
    )
    first, second = (choose_priors(each)[[*KEY, "n_tried"]] for each in (table, shuffled))
    pd.testing.assert_frame_equal(first, second)


def test_evidence_that_was_withheld_chooses_nothing():
    rows = [small_row(prior_scale=s, log_evidence=z) for s, z in (("fan_in", -9.0), ("2*fan_in", None))]
    row = chosen(*rows).loc["smc_evidence"]
    assert (row["prior_scale"], row["n_withheld"]) == ("fan_in", 1)
    assert chosen(*[row | {"log_evidence": None} for row in rows]).empty
    assert chosen(rows[0]).empty, "one candidate is no choice"


def test_learnt_scales_are_a_method_of_their_own_and_no_candidate():
    rows = [small_row(prior_scale=s, log_evidence=-300.0 - i) for i, s in enumerate(("fan_in", "2*fan_in"))]
    found = chosen(*rows, small_row(prior_scale="hierarchical", log_evidence=-1.0))
    assert found["prior_scale"].to_dict() == {"smc_hierarchical": "hierarchical", "smc_evidence": "fan_in"}
    assert found.loc["smc_hierarchical", TOTAL] == 100


def test_each_seed_size_dataset_and_number_of_particles_chooses_for_itself():
    rows = []
    for i, more in enumerate(
        ({}, {"seed": 1}, {"n_train": 250}, {"particles": 32}, {"dataset": "fashion_mnist"})
    ):
        best = ("fan_in", "2*fan_in")[i % 2]
        for scale in ("fan_in", "2*fan_in"):
            rows.append(small_row(prior_scale=scale, log_evidence=-1.0 - (scale != best), **more))
    found = choose_priors(small_table(*rows))
    assert found["prior_scale"].tolist() == ["fan_in", "2*fan_in", "fan_in", "2*fan_in", "fan_in"]


def test_a_baseline_s_prior_is_chosen_by_its_validation_split_and_pays_for_its_search():
    rows = [
        small_row("sghmc", scale, validation_log_likelihood=v, test_log_likelihood=t)
        for scale, v, t in (("fan_in", -0.5, -0.1), ("2*fan_in", -0.2, -0.9))
    ]
    row = chosen(*rows).loc["sghmc"]
    assert (row["prior_scale"], row[TOTAL]) == ("2*fan_in", 2 * (100 + 50))
    assert chosen(small_row("deep_ensemble", "")).loc["deep_ensemble", TOTAL] == 150


def test_ours_is_compared_with_the_ensemble_over_the_seeds_that_both_have():
    rows = [
        small_row(prior_scale=scale, log_evidence=z, seed=seed, test_accuracy=90.0 + seed)
        for seed in (0, 1, 2)
        for scale, z in (("fan_in", -1.0), ("2*fan_in", -2.0))
    ]
    rows += [small_row("deep_ensemble", "", seed=seed, test_accuracy=89.0 - 10 * seed) for seed in (0, 1)]
    (row,) = differences(small_table(*rows)).to_dict("records")
    assert (row["method"], row["n_seeds"], row["test_accuracy"]) == ("smc_evidence", 2, (1 + 12) / 2)
    assert numbers(small_table(*rows))["smc_evidence/above/test_accuracy"] == "1"


def test_health_is_that_of_the_worst_run():
    rows = [
        small_row(seed=seed, acceptance=a, min_ess_share=e, drift=d, log_evidence=z)
        for seed, (a, e, d, z) in enumerate(
            [(0.8, 0.5, 0.2, -10.0), (0.4, 0.3, -0.9, -14.0), (0.9, 0.5, 0, None)]
        )
    ]
    rows.append(small_row("deep_ensemble", ""))
    (row,) = health(small_table(*rows))
    assert (row["acceptance"], row["min_ess_share"], row["drift"]) == ("0.40", "0.300", "0.90")
    assert (row["n_runs"], row["n_withheld"]) == ("3", "1")
    assert row["evidence_sd"] == f"{8**0.5:.2f}"


def test_scales_stand_in_their_order_on_an_axis():
    scales = ["hierarchical", "10*fan_in", "2*fan_in", "0.1", "fan_in", "0.5*fan_in"]
    assert sorted(scales, key=gain) == [
        "0.1",
        "0.5*fan_in",
        "fan_in",
        "2*fan_in",
        "10*fan_in",
        "hierarchical",
    ]


@pytest.mark.parametrize("rows", [0, 1, 30, None])
def test_figures_and_tables_are_made_of_however_much_was_run(tmp_path, rows):
    from types import SimpleNamespace as Named

    whole_grid().iloc[:rows].to_csv(tmp_path / "runs.csv", index=False)
    table = read_small_data(tmp_path / "runs.csv")
    for figure in FIGURES:
        figure.draw(table)
    for name in TABLES:
        template = ROOT / "paper" / "templates" / f"{name}.tex.j2"
        files = Named(runs=tmp_path / "runs.csv", template=template)
        output = Named(tex=tmp_path / f"{name}.tex", csv=tmp_path / f"{name}.csv")
        make_table(Named(input=files, output=output, wildcards=Named(table=name)))
        text = output.tex.read_text()
        assert ("tabular" in text) == bool(TABLES[name](table)) != ("not run" in text)


def test_the_table_of_the_paper_has_every_mean_in_its_place(tmp_path):
    records = scores(whole_grid())
    one = next(
        r for r in records if (r["method"], r["particles"], r["n_train"]) == ("smc_evidence", "32", "1000")
    )
    # Seeds 0 to 2 have 88 + seed + 1, less nothing at the scale of largest evidence.
    assert (one["test_accuracy_mean"], one["test_accuracy_std"], one["n_seeds"]) == ("90.00", "1.00", "3")
    assert one["prior_scales"] == "4*fan_in"
    assert one["evaluations"] == "24.00", "four scales of six million each"


def test_a_row_says_what_the_run_recorded_and_how_its_weights_fared(tmp_path):
    metrics = {"dataset": "mnist", "n_train": 50, "particles": 4, "seed": 3, "prior_scale": 0.1}
    metrics |= {"ood_auroc_entropy": 0.7, "diagnostics": {"drift": "a line"}, "model": "lenet5"}
    metrics |= {"versions": {"jax": "9"}, "search": []}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    moves = {"acceptance": 0.6, "log_likelihood": -1.0, "batch_size": 50, "log_likelihood_sd": 2.0}
    trace = pd.DataFrame(
        [moves | {"n_moves": n, "ess": e, "unique_ancestors": 2} for n, e in enumerate((4, 1, 4), 1)]
    )
    trace["log_likelihood"] = [-1.0, -0.5, 0.0]
    trace.to_csv(tmp_path / "trace.csv", index=False)
    row = row_of("smc_adaptive", tmp_path / "metrics.json")
    assert list(row) == COLUMNS
    known = {"prior_scale": "0.1", "ood_auroc": 0.7, "diagnostics": "drift", "jax_version": "9"}
    known |= {"min_ess_share": 0.25, "acceptance": 0.6, "drift": None, "n_moves": 3, "unique_ancestors": 2}
    assert {name: row[name] for name in known} == pytest.approx(known)


def test_every_kept_row_names_one_run():
    table = read_small_data(REFERENCE / "small_data.csv")
    assert list(table.columns) == COLUMNS
    assert not table.duplicated(KEY).any()
    known = [
        *KEY,
        "test_accuracy",
        "test_log_likelihood",
        "ood_auroc",
        "gradient_evaluations",
        "machine",
        "commit",
    ]
    assert table[known].notna().all(axis=None)
