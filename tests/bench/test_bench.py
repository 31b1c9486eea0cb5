"""What the benchmark counts and compares; its clocks are not tested."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from smcda.bench import MEASURES, THRESHOLDS, Threshold, bench, leaves, look_up, table
from smcda.bench.flops import LAYERS, convolution, gradient_flops
from smcda.bench.roofline import GPU, paper_evaluations, predicted_hours, seconds_at_least
from smcda.bench.timing import images, interleaved
from smcda.cli import main
from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.priors import gaussian
from smcda.runs.loop import Run
from smcda.smc.cost import gradient_evaluations
from smcda.smc.schedules.fixed import FIXED


@pytest.mark.parametrize(("size", "kernel", "padding"), [(28, 5, 2), (14, 5, 0), (28, 3, 1), (9, 7, 3)])
def test_taps_on_the_zeros_around_an_image_do_not_count(size, kernel, padding):
    # Convolving ones with ones counts the taps that fall inside.
    inside = np.convolve(np.ones(size), np.ones(kernel))
    outputs = size + 2 * padding - kernel + 1
    first = kernel - 1 - padding
    along_one_axis = inside[first : first + outputs].sum()
    assert convolution(size, kernel, padding, 2, 3).products == along_one_axis**2 * 6


def test_the_first_layer_needs_no_gradient_of_its_input():
    first, *others = (layer.products for layer in LAYERS["lenet5"])
    assert first == 134**2 * 6
    assert gradient_flops("lenet5") == 4 * first + 6 * sum(others)


@pytest.mark.parametrize(
    ("scheme", "kernel", "steps"),
    [*((scheme, "hmc", None) for scheme in FIXED), ("linear", "ld", None), ("linear", "hmc", 10)],
)
def test_evaluations_counted_beforehand_are_those_that_a_run_makes(scheme, kernel, steps):
    def log_likelihood(parameters, x, y):
        return -((y - x * parameters) ** 2)

    chosen = {} if steps is None else {"leapfrog_steps": steps}
    config = SamplerConfig(scheme, kernel, 3, 20, 0.01, batch_size=7, **chosen)
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    run = Run(Model.from_log_likelihood(log_likelihood, gaussian(np.zeros(()), 1.0)), x, x, config)
    run.advance(20)
    assert run.trace()["gradient_evaluations"][-1] == gradient_evaluations(config, 50)


def test_published_runs_cost_what_the_design_says():
    counts = paper_evaluations()
    assert counts["full_batch.ld"] / counts["constant_to_refine.ld"] == pytest.approx(8.4, abs=0.05)
    assert counts["full_batch.hmc"] / counts["constant_to_refine.hmc"] == pytest.approx(9.0, abs=0.05)
    assert counts["full_batch.ld"] / counts["constant.ld"] == pytest.approx(60, abs=0.5)
    assert counts["full_batch.hmc"] / counts["constant.hmc"] == pytest.approx(90, abs=0.5)


def test_each_kernel_takes_the_slower_of_arithmetic_and_traffic():
    gpu = GPU(bandwidth=100.0, float32=10.0, tf32=60.0)
    kernels = [(200, 5), (100, 30)]  # two seconds of traffic; one of traffic, three of arithmetic
    assert seconds_at_least(kernels, gpu, "float32") == pytest.approx(2 + 3)
    assert seconds_at_least(kernels, gpu, "tf32x3") == pytest.approx(2 + 1.5)
    assert seconds_at_least(kernels, gpu, "tf32") == pytest.approx(2 + 1)
    assert seconds_at_least(kernels, gpu, "float32", "cautious") == pytest.approx(2 / 0.7 + 3 / 0.45)


def test_hours_of_the_published_grid_are_those_of_both_networks_and_all_seeds():
    evaluations = sum(paper_evaluations().values())
    assert predicted_hours([1e-6, 2e-6], seeds=1) == pytest.approx(3e-6 * evaluations / 3600)
    assert predicted_hours([1e-6]) == pytest.approx(5e-6 * evaluations / 3600)


def test_calls_are_interleaved_and_the_first_turn_does_not_count():
    order = []
    found = interleaved({name: lambda n=name: order.append(n) or jnp.ones(1) for name in "ab"}, rounds=2)
    assert order == list("ababab")
    assert found.keys() == {"a", "b"}
    assert all(0 < seconds < 1 for seconds in found.values())


def test_a_threshold_is_met_only_inside_its_bounds():
    assert [Threshold("", "", 0.95, 1.05).met(value) for value in (0.94, 0.95, 1.05, 1.06)] == [
        False,
        True,
        True,
        False,
    ]


def test_figures_are_found_by_dotted_keys_that_may_hold_dots():
    figures = {"paper_scale": {"constant.ld": {"share": 0.8}}, "flat": 2.0}
    assert look_up(figures, "paper_scale.constant.ld.share") == 0.8
    assert look_up(figures, "flat") == 2.0
    assert look_up(figures, "paper_scale.constant.hmc.share") is None


def test_what_falls_short_or_was_not_measured_is_shown_as_such():
    verdicts = list(table({"warm_start_s": 5.0, "compilations": 1}).columns[3].cells)
    by_key = dict(zip((threshold.key for threshold in THRESHOLDS), verdicts, strict=True))
    assert by_key["warm_start_s"] == "MISSED"
    assert by_key["compilations"] == "met"
    assert by_key["two_runs_over_one"] == ""


def test_every_figure_is_listed_with_its_dotted_key():
    figures = {"share": {"lenet5": {"10": 0.5}, "cnn": 0.25}, "n": 1}
    assert list(leaves(figures)) == [("share.lenet5.10", 0.5), ("share.cnn", 0.25), ("n", 1)]


def test_images_are_repeated_to_any_number():
    data = images(4_001)
    assert len(data.train_x) == len(data.train_y) == 4_001
    np.testing.assert_array_equal(data.train_x[0], data.train_x[2_000])


@pytest.mark.slow
def test_the_command_measures_and_writes_its_figures(tmp_path, capsys, cache):
    where = ["--json", str(tmp_path / "f.json"), "--compilation-cache", str(cache)]
    assert main(["bench", "compilations", "--quick", *where]) == 0
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["quick"] is True
    assert figures["compilations"] == 1
    printed = capsys.readouterr()
    assert "not measured" in printed.out
    assert "compilations 1" in printed.err, "figures are shown as they come"


def test_an_unknown_measure_is_refused_before_anything_is_measured(capsys):
    with pytest.raises(BadInput, match=f"choose from {', '.join(MEASURES)}"):
        bench(["speed"])
    assert main(["bench", "speed"]) == 2
    assert "measuring" not in capsys.readouterr().err
