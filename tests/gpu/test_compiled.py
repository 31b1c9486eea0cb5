"""The programs of runs, compiled by XLA's CUDA compiler for a GPU that is not there.

They need the packages of the extra ``cuda-compile`` (CONTRIBUTING.md tells how to install them).
"""

from pathlib import Path

import pytest
from helpers.gpu_programs import NETWORKS, assert_fit_for_a_gpu, network_programs

from smcda.bench import hlo
from smcda.bench.deviceless import GENERATED_PRODUCTS, LIBRARY_PRODUCTS, gpus

pytestmark = pytest.mark.cuda

TARGETS = {name: (Path(__file__).parent / "targets" / f"{name}.txt").read_text() for name in ("a100", "h100")}
MIB, GIB = 2**20, 2**30
CUBLAS = {"__cublas$gemm", "__cublas$lt$matmul"}

BEFORE = {"lenet5": 440_076, "fashion_cnn": 702_541, "fashion_cnn normalised": 963_553}
"""Bytes per particle and image where layers keep all that JAX keeps by itself."""

ALLOWED = {"lenet5": 0.75, "fashion_cnn": 0.65, "fashion_cnn normalised": 0.65}
TEMPORARY_MIB = {"lenet5": 3_300, "fashion_cnn": 4_000, "fashion_cnn normalised": 4_800}


def a100(n_devices=1):
    return gpus(TARGETS["a100"], n_devices)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_block_of_iterations_is_fit_for_an_a100(name):
    compiled = network_programs(name, a100()).block.compile(**LIBRARY_PRODUCTS)
    text, memory = compiled.as_text(), compiled.memory_analysis()
    assert_fit_for_a_gpu(text, CUBLAS)
    assert text.count('"operand_precision":["HIGHEST","HIGHEST"]') == text.count('"operand_precision"') > 0
    assert memory.temp_size_in_bytes < TEMPORARY_MIB[name] * MIB
    program = hlo.parse(text)
    moved = sum(kernel.bytes for kernel in program.kernels(program.busiest())) / (100 * 500)
    assert moved < ALLOWED[name] * BEFORE[name]


@pytest.mark.parametrize("scheme", ["smooth_data_annealing", "adaptive"])
def test_schemes_that_choose_compile_for_an_a100(scheme):
    found = network_programs("lenet5", a100(), scheme)
    assert_fit_for_a_gpu(found.block.compile(**LIBRARY_PRODUCTS).as_text(), CUBLAS)


def test_start_and_predictions_compile_for_an_h100():
    found = network_programs("fashion_cnn normalised", gpus(TARGETS["h100"]))
    for program in (found.start, found.predict):
        assert_fit_for_a_gpu(program.compile(**LIBRARY_PRODUCTS).as_text(), CUBLAS)


def test_a_thousand_particles_fit_a_card_of_8_gib():
    # JAX takes three quarters of a card by default.
    found = network_programs("fashion_cnn normalised", a100(), particles=1_000, chunk=None, memory=6 * GIB)
    assert found.plan.particle_chunk < 1_000
    for program in (found.block, found.predict):
        memory = program.compile(**LIBRARY_PRODUCTS).memory_analysis()
        assert memory.temp_size_in_bytes + memory.argument_size_in_bytes < 6 * GIB


@pytest.mark.parametrize(("precision", "has_tf32"), [("float32", False), ("tf32x3", True)])
def test_tf32_is_in_the_machine_code_only_where_it_is_chosen(precision, has_tf32, tmp_path):
    found = network_programs("lenet5", a100(), precision=precision)
    found.block.compile(**GENERATED_PRODUCTS, xla_dump_to=str(tmp_path))
    code = "".join(path.read_text() for path in tmp_path.glob("*.ptx"))
    assert "fma.rn.f32" in code, "there must be code to look at"
    assert ("tf32" in code) == has_tf32


def test_four_devices_exchange_nothing_while_they_take_gradients():
    found = network_programs("lenet5", a100(4), chunk=25)
    assert found.plan.n_devices == 4
    program = hlo.parse(found.block.compile(**LIBRARY_PRODUCTS).as_text())

    def exchanges(computation):
        names = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")
        return [each.name for each in program.reachable(computation) if each.op.startswith(names)]

    assert exchanges(program.entry), "resampling must exchange particles"
    assert exchanges(program.busiest()) == []
