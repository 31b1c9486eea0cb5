"""The figures show what the data say: drawn from hand-made runs whose values are known."""

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
from helpers.drawn import FIGURES, all_text_fits, labelled, texts
from helpers.fake_traces import (
    ALL,
    BETA,
    ONE,
    SIZES,
    STUDIES,
    C,
    K,
    N,
    runs_of,
    summary_of,
    traces_of,
)
from lib import style
from lib.labels import FALLBACK_LOOKS, SCHEMES, label, scheme_labels


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


def test_schemes_kernels_and_datasets_without_a_label_are_drawn_too():
    study = {"dataset": ["cifar_10"], "scheme": ["linear", "my_scheme", "a_scheme"]}
    for name, draw in FIGURES.items():
        figure = draw(study | {"kernel": ["mala"], "seed": [0]})
        words = " ".join(text.get_text() for text in texts(figure))
        assert "cifar 10" in words or name == "schedules"
        assert ("My scheme" in words and "A scheme" in words) or name == "beta_traces"


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
