"""Every program of a run lowers for CUDA, to nothing but plain operations; needs no CUDA packages."""

import pytest
from helpers.gpu_programs import (
    NETWORKS,
    assert_fit_for_a_gpu,
    custom_calls,
    network_programs,
    regression_programs,
)

from smcda.bench.deviceless import AnyGPU
from smcda.smc.schedules.fixed import FIXED

GPU = [AnyGPU()]


def assert_exact(text):
    products = text.count("stablehlo.dot_general")
    assert products == text.count("precision = [HIGHEST, HIGHEST]") > 0


@pytest.mark.parametrize("name", [NETWORKS[0], NETWORKS[2]])
def test_a_block_of_a_networks_run_lowers_with_exact_products(name):
    text = network_programs(name, GPU).block.export()
    assert_fit_for_a_gpu(text)
    assert_exact(text)


def test_tf32_is_in_a_program_only_where_it_is_chosen():
    for precision, products in (("tf32x3", 3), ("tf32", 1)):
        text = regression_programs(GPU, "linear", precision=precision).block.export()
        assert f"num_primitive_operations = {products}" in text
        assert "lhs_precision_type = tf32" in text


def test_predictions_lower_with_exact_products():
    text = network_programs("fashion_cnn normalised", GPU).predict.export()
    assert_fit_for_a_gpu(text)
    assert_exact(text)


@pytest.mark.parametrize("scheme", ["linear", "smooth_data_annealing"])
def test_start_and_block_of_a_scheme_lower(scheme):
    found = regression_programs(GPU, scheme)
    assert_fit_for_a_gpu(found.start.export())
    assert_fit_for_a_gpu(found.block.export())


def test_adaptive_calls_a_library_only_for_the_eigenvectors_of_its_dense_metric():
    text = regression_programs(GPU, "adaptive").block.export()
    assert custom_calls(text) == {"cusolver_syevd_ffi"}
    assert_fit_for_a_gpu(text, {"cusolver_syevd_ffi"})
    assert_exact(text)


@pytest.mark.cuda
def test_adaptive_without_a_dense_metric_calls_nothing():
    text = network_programs("lenet5", GPU, "adaptive").block.export()
    assert_fit_for_a_gpu(text)
    assert_exact(text)


@pytest.mark.cuda
def test_all_fixed_schemes_are_one_program():
    assert len({regression_programs(GPU, scheme).block.export() for scheme in FIXED}) == 1
