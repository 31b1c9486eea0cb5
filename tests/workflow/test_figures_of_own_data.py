"""Figures of a study with datasets of one's own: regressions beside classes, other sizes, other scores."""

import json

import numpy as np
import pandas as pd
import plot_beta_traces
import plot_cost
import plot_degeneracy
import plot_learning_curves
import plot_reliability
import plot_schedules
import pytest
from helpers.drawn import all_text_fits, labelled, texts
from helpers.fake_traces import ONE, N, bins_of, runs_of, summary_of, traces_of
from lib.labels import label

OWN = {"dataset": ["mnist", "wine", "flowers"], "scheme": ["full_batch", "linear"], "kernel": ["ld", "hmc"]}
OWN |= {"seed": [0, 1]}


def of_own(table, accuracy, rmse):
    """Make the rows of wine a regression, and those of custom ones scored by the log-likelihood only."""
    is_number = table["dataset"].isin(["wine", "custom"])
    values = table[accuracy].where(table["dataset"] == "wine") / 10
    return table.assign(**{rmse: values, accuracy: table[accuracy].where(~is_number)})


def own_traces(study=OWN):
    return of_own(traces_of(study), "test_accuracy", "test_rmse")


def own_summary(study=OWN):
    return of_own(summary_of(study), "test_accuracy_mean", "test_rmse_mean").assign(test_rmse_std=0.1)


def by_title(figure):
    """Scores that are drawn below each title: labels of the rows are those of the first column."""
    found, labels = {}, {}
    for panel in figure.axes:
        place = panel.get_subplotspec()
        row = (id(place.get_gridspec()), place.rowspan.start)
        labels[row] = panel.get_ylabel() or labels[row]
        column = (id(place.get_gridspec()), place.colspan.start)
        title = panel.get_title() or found[column][0]
        found.setdefault(column, (title, []))[1].append(labels[row])
    return {title.replace("\n", ", "): scores for title, scores in found.values()}


ACCURACY, RMSE = (["test accuracy (%)", "test log-likelihood"], ["test RMSE", "test log-likelihood"])


@pytest.mark.parametrize("n_datasets", [3, 6])
@pytest.mark.parametrize("name", ["cost", "learning_curves"])
def test_every_dataset_has_panels_of_its_own_scores(name, n_datasets):
    datasets = {
        "mnist": ACCURACY,
        "wine": RMSE,
        "custom": RMSE[1:],
        "fashion_mnist": ACCURACY,
        "flowers": ACCURACY,
    }
    datasets = dict(list((datasets | {"a_set_with_a_long_name": ACCURACY}).items())[:n_datasets])
    study = OWN | {"dataset": list(datasets)}
    if name == "cost":
        figure = plot_cost.draw(own_summary(study))
        expected = {label(dataset).name: scores for dataset, scores in datasets.items()}
    else:
        figure = plot_learning_curves.draw(own_traces(study))
        expected = {
            f"{label(dataset).name}, {kernel}": scores
            for dataset, scores in datasets.items()
            for kernel in ("LD", "HMC")
        }
    assert by_title(figure) == expected
    assert all(panel.lines for panel in figure.axes)
    all_text_fits(figure)


def test_the_frontier_of_an_error_is_the_lowest():
    rows = own_summary().query("dataset == 'wine'")
    panel = plot_cost.draw(rows).axes[0]
    line = labelled(panel, plot_cost.FRONTIER)
    cheapest = rows.loc[rows["gradient_evaluations_mean"].idxmin()]
    assert line.get_ydata()[0] == cheapest["test_rmse_mean"]
    assert line.get_ydata()[-1] == rows["test_rmse_mean"].min()
    assert (np.diff(line.get_ydata()) <= 0).all()


def test_datasets_of_other_sizes_have_schedules_of_their_own():
    traces = traces_of(OWN)
    traces.loc[traces["dataset"] == "wine", "batch_size"] *= 7
    figure = plot_schedules.draw(traces)
    assert [part.get_suptitle() for part in figure.subfigs] == ["MNIST, flowers", "wine"]
    assert [max(panel.lines[-1].get_ydata()) for panel in figure.axes] == [N, N, 7 * N, 7 * N]
    all_text_fits(figure)


def test_all_datasets_are_in_the_figures_that_show_no_scores():
    study = OWN | {"dataset": ["mnist", "wine", "flowers", "a", "b"], "scheme": ["smooth_data_annealing"]}
    beta, degeneracy = (draw(traces_of(study)) for draw in (plot_beta_traces.draw, plot_degeneracy.draw))
    words = " ".join(text.get_text() for text in texts(beta))
    assert all(f"{name}, seed 0" in words for name in ("MNIST", "wine", "flowers", "a", "b"))
    assert len(beta.axes) == 3 * 5
    assert all(panel.lines for panel in (*beta.axes, *degeneracy.axes))
    all_text_fits(beta)


def coverage_of(study):
    return pd.DataFrame([run | {"nominal": 90.0, "coverage": 80.0 + run["seed"]} for run in runs_of(study)])


def test_reliability_of_numbers_is_the_coverage_of_their_intervals():
    classes, numbers = OWN | {"dataset": ["mnist", "flowers"]}, OWN | {"dataset": ["wine"]}
    figure = plot_reliability.draw(bins_of(classes), coverage_of(numbers), ["custom"])
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["MNIST, LD", "MNIST, HMC", "flowers, LD", "flowers, HMC", "wine, LD", "wine, HMC"]
    assert list(labelled(figure.axes[4], "Linear").get_xdata()) == [80, 81]
    assert list(figure.axes[4].lines[0].get_xdata()) == [90, 90]
    assert figure.get_suptitle() == "Neither class probabilities nor intervals: custom"
    all_text_fits(figure)
    alone = plot_reliability.draw(plot_reliability.NO_RUNS, coverage_of(numbers))
    assert [panel.get_title() for panel in alone.axes] == ["wine, LD", "wine, HMC"]


def test_a_study_without_classes_and_intervals_says_so_and_has_no_empty_panel():
    figure = plot_reliability.draw(plot_reliability.NO_RUNS, plot_reliability.NO_RUNS, ["custom"])
    assert figure.axes == []
    assert [text.get_text() for text in figure.texts] == ["Neither class probabilities nor intervals: custom"]


def test_bins_and_coverage_are_read_from_the_runs_that_have_them(tmp_path):
    runs = runs_of(ONE | {"dataset": ["flowers", "wine", "custom"]})
    bins = {"confidence": [0.5], "accuracy": [1], "n_examples": [3]}
    metrics = [{"reliability": bins}, {"test_coverage_90": 87.5}, {}]
    files = [tmp_path / f"{place}.json" for place in range(3)]
    for file, content in zip(files, metrics, strict=True):
        file.write_text(json.dumps(content))
    assert plot_reliability.read_bins(runs, files)["dataset"].tolist() == ["flowers"]
    found = plot_reliability.read_coverage(runs, files)
    assert found[["dataset", "nominal", "coverage"]].to_numpy().tolist() == [["wine", 90, 87.5]]
    assert len(plot_reliability.read_bins(runs[1:], files[1:])) == 0
