"""The figures show what the data say: drawn from hand-made runs whose values are known."""

import itertools
import json

import matplotlib.colors
import numpy as np
import pandas as pd
import plot_beta_traces
import plot_cost
import plot_degeneracy
import plot_learning_curves
import plot_reliability
import plot_schedules
import pytest
from helpers.fake_traces import (
    ALL,
    BETA,
    ONE,
    SIZES,
    STUDIES,
    C,
    K,
    N,
    bins_of,
    runs_of,
    summary_of,
    traces_of,
)
from lib import style
from lib.labels import FALLBACK_LOOKS, SCHEMES, label, scheme_labels

FIGURES = {
    "schedules": lambda study: plot_schedules.draw(traces_of(study)),
    "cost": lambda study: plot_cost.draw(summary_of(study)),
    "learning_curves": lambda study: plot_learning_curves.draw(traces_of(study)),
    "degeneracy": lambda study: plot_degeneracy.draw(traces_of(study)),
    "reliability": lambda study: plot_reliability.draw(bins_of(study)),
    "beta_traces": lambda study: plot_beta_traces.draw(
        traces_of(study | {"scheme": ["smooth_data_annealing"]})
    ),
}


def labelled(panel, label):
    """The panel's one line of this name."""
    (line,) = [line for line in panel.lines if line.get_label() == label]
    return line


def texts(figure):
    """Everything written in the figure; of the tick labels, those inside the axis's limits."""
    found = [text for legend in legends(figure) for text in legend.get_texts()]
    for panel in figure.axes:
        found += [panel.title, panel.xaxis.label, panel.yaxis.label, *panel.texts]
        for axis in (panel.xaxis, panel.yaxis):
            low, high = axis.get_view_interval()
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text() and text.get_visible()]


def legends(figure):
    return [legend for legend in [*figure.legends, *(panel.get_legend() for panel in figure.axes)] if legend]


def legend_names_what_is_drawn(figure, study):
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names) == sorted(label(scheme).title for scheme in study["scheme"])
    for panel in figure.axes:
        for name in names:
            assert len(labelled(panel, name).get_xdata()) > 0


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
@pytest.mark.parametrize("name", FIGURES)
def test_all_text_fits_and_legends_name_what_is_drawn(name, study):
    figure = FIGURES[name](study)
    if name in ("learning_curves", "degeneracy", "reliability"):
        legend_names_what_is_drawn(figure, study)
    all_text_fits(figure)


def all_text_fits(figure):
    """Nothing is cut off, and no text is on top of another."""
    assert figure.get_figwidth() in (style.COLUMN, style.PAGE)
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert len(boxes) > 5
    for text, box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width, text
        assert box.y0 >= 0 and box.y1 <= figure.bbox.height, text
    for (one, box), (other, another) in itertools.combinations(boxes, 2):
        assert not box.overlaps(another), (one, other)


def test_schemes_kernels_and_datasets_without_a_label_are_drawn_too():
    study = {"dataset": ["cifar_10"], "scheme": ["linear", "my_scheme", "a_scheme"]}
    for name, draw in FIGURES.items():
        figure = draw(study | {"kernel": ["mala"], "seed": [0]})
        words = " ".join(text.get_text() for text in texts(figure))
        assert "cifar 10" in words or name == "schedules"
        assert ("My scheme" in words and "A scheme" in words) or name == "beta_traces"


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


def test_the_look_of_an_unknown_scheme_depends_on_no_known_one():
    few, many = scheme_labels(["my_scheme"]), scheme_labels([*SCHEMES, "my_scheme", "a_scheme"])
    assert list(many) == [*SCHEMES, "a_scheme", "my_scheme"]
    assert few["my_scheme"].marker == many["a_scheme"].marker == FALLBACK_LOOKS[0][1]
    assert len({(look.colour, look.marker) for look in many.values()}) == 8


def test_the_six_schemes_stay_apart_in_grey():
    luminance = [
        np.dot(matplotlib.colors.to_rgb(look.colour), [0.2126, 0.7152, 0.0722]) for look in SCHEMES.values()
    ]
    assert np.min(np.diff(np.sort(luminance))) > 0.05
    assert len({look.marker for look in SCHEMES.values()}) == len(SCHEMES)


def test_schedules_have_a_panel_a_scheme_that_shows_its_batch_sizes():
    panels = plot_schedules.draw(traces_of(ALL)).axes
    assert [panel.get_title().split("\n")[0] for panel in panels] == [
        label(scheme).title for scheme in SCHEMES
    ]
    for panel, scheme in zip(panels, SCHEMES, strict=True):
        full, single, line = panel.lines
        assert list(line.get_ydata()) == SIZES[scheme]
        assert full.get_ydata()[0] == N and full.get_linestyle() == ":"
        assert single.get_ydata()[0] == C and single.get_linestyle() == "-."
    assert panels[-1].get_title().endswith("MNIST, LD, seed 0")


@pytest.mark.parametrize("n_schemes", [2, 4, 5])
def test_schedules_of_any_number_of_schemes_leave_no_empty_panel(n_schemes):
    figure = plot_schedules.draw(traces_of(ALL | {"scheme": list(SIZES)[:n_schemes]}))
    assert len(figure.axes) == n_schemes
    assert all(panel.lines for panel in figure.axes)


def test_the_full_batch_is_not_marked_where_no_scheme_uses_it():
    assert plot_schedules.reference_lines(traces_of(ONE)) == {"one minibatch": C}
    assert plot_schedules.reference_lines(traces_of(ONE | {"scheme": ["full_batch"]})) == {"full batch": N}


def test_beta_and_minibatches_are_those_of_the_first_seed():
    figure = plot_beta_traces.draw(traces_of(ALL | {"scheme": ["smooth_data_annealing"]}))
    assert len(figure.axes) == 2 * 3
    for panel in figure.axes[:4]:
        assert [list(line.get_ydata()) for line in panel.lines] == [BETA]
    for panel in figure.axes[4:]:
        assert list(labelled(panel, "HMC").get_ydata()) == [1, 1, 1, 2, 2, 3, 3, 3, 4, 4]


def test_the_frontier_holds_exactly_the_points_that_none_beats():
    kept = [(1, 50), (2, 60), (5, 75)]
    beaten = [(2, 55), (3, 60), (4, 10), (5, 70), (9, 75)]
    assert plot_cost.frontier(beaten + kept[::-1] + kept) == kept


def test_cost_has_an_open_or_filled_marker_at_every_mean():
    summary = summary_of(ALL)
    figure = plot_cost.draw(summary)
    panel = figure.axes[1]
    rows = summary[summary["dataset"] == "fashion_mnist"]
    found = {}
    for container in panel.containers:
        marker = container.lines[0]
        found[marker.get_xdata()[0], marker.get_ydata()[0]] = (
            marker.get_marker(),
            marker.get_markerfacecolor(),
        )
    assert found == {
        (row.gradient_evaluations_mean, row.test_accuracy_mean): (
            SCHEMES[row.scheme].marker,
            SCHEMES[row.scheme].colour if row.kernel == "hmc" else "white",
        )
        for row in rows.itertuples()
    }


def test_a_single_combination_has_no_frontier_in_its_legend():
    (legend,) = plot_cost.draw(summary_of(ONE)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["Constant", "HMC (filled)"]


def test_learning_curves_are_means_over_seeds_where_runs_were_scored():
    panel = plot_learning_curves.draw(traces_of(ALL | {"scheme": ["linear"]})).axes[0]
    line = labelled(panel, "Linear")
    assert list(line.get_ydata()) == [10.5, 30.5, 50.5, 70.5, 90.5]
    assert list(line.get_xdata()) == [180, 600, 1200, 1800, 2400]
    assert panel.get_xscale() == "log"


def test_degeneracy_lines_are_means_over_seeds():
    figure = plot_degeneracy.draw(traces_of(ALL | {"scheme": ["full_batch", "linear"]}))
    assert [panel.get_title() for panel in figure.axes[2:4]] == [
        "unique ancestors, LD",
        "unique ancestors, HMC",
    ]
    assert list(labelled(figure.axes[0], "Full batch").get_ydata()) == [2.0 + k for k in range(K)]
    assert list(labelled(figure.axes[7], "Linear").get_ydata()) == [K - k for k in range(K)]


def test_long_runs_average_the_sample_size_over_neighbours_and_say_so():
    trace = traces_of(ONE)
    long = pd.concat([trace.assign(iteration=trace["iteration"] + K * i) for i in range(4)])
    smoothed, ancestors = plot_degeneracy.draw(long).axes
    assert labelled(smoothed, "Constant").get_ydata()[9] == pytest.approx(np.mean([23, 24, 15]))
    assert "mean of 3" in smoothed.get_xlabel() and "mean" not in ancestors.get_xlabel()


def test_reliability_pools_bins_over_seeds_by_their_examples():
    bins = pd.DataFrame(
        {
            "bin": [0, 1, 2, 0, 1, 2],
            "confidence": [0.0, 0.5, 0.9, 0.0, 0.6, 0.0],
            "accuracy": [0.0, 0.25, 1.0, 0.0, 0.75, 0.0],
            "n_examples": [0, 4, 6, 0, 12, 0],
            "seed": [0, 0, 0, 1, 1, 1],
        }
    ).assign(dataset="mnist", kernel="ld", scheme="linear")
    figure = plot_reliability.draw(bins)
    line = labelled(figure.axes[0], "Linear")
    # (4 * 0.5 + 12 * 0.6) / 16 and (4 * 0.25 + 12 * 0.75) / 16; the first bin is empty
    assert list(line.get_xdata()) == pytest.approx([0.575, 0.9])
    assert list(line.get_ydata()) == pytest.approx([0.625, 1.0])
    # (16 * 0.05 + 6 * 0.1) / 22
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["0.064"]
    assert list(figure.axes[0].lines[0].get_xdata()) == list(figure.axes[0].lines[0].get_ydata()) == [0, 1]


def test_traces_and_bins_are_read_with_the_run_they_belong_to(tmp_path):
    runs = runs_of(ONE | {"seed": [3, 4]})
    traces = [tmp_path / f"{run['seed']}.csv" for run in runs]
    metrics = [tmp_path / f"{run['seed']}.json" for run in runs]
    for seed, trace, metric in zip((3, 4), traces, metrics, strict=True):
        trace.write_text(f"iteration,beta,test_accuracy\n0,{seed},\n1,1.0,50\n")
        bins = {"confidence": [0, 0.5], "accuracy": [0, 1], "n_examples": [0, seed]}
        metric.write_text(json.dumps({"reliability": bins}))
    table = style.read_traces(runs, traces)
    assert list(table.loc[table["iteration"] == 0, "beta"]) == list(table["seed"].unique()) == [3, 4]
    assert table["test_accuracy"].isna().sum() == 2
    bins = plot_reliability.read_bins(runs, metrics)
    assert list(bins.loc[bins["bin"] == 1, "n_examples"]) == [3, 4]


def test_saving_the_same_figure_twice_gives_the_same_bytes(tmp_path):
    for folder in ("one", "two"):
        figure = FIGURES["schedules"](ONE)
        (tmp_path / folder).mkdir()
        style.save(figure, tmp_path / folder / "figure.pdf", tmp_path / folder / "figure.png")
    for suffix, start in (("pdf", b"%PDF"), ("png", b"\x89PNG")):
        one, two = ((tmp_path / folder / f"figure.{suffix}").read_bytes() for folder in ("one", "two"))
        assert one == two and one.startswith(start)
        assert b"CreationDate" not in one and b"Software" not in one
