"""Bytes and operations counted from the text of a program, against counts made by hand."""

import pytest

from smcda.bench import hlo

TEXT = """HloModule jit_f, entry_computation_layout={(f32[8,4]{1,0}, f32[4,2]{1,0})->f32[8,2]{1,0}}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%sliced (p: f32[8,4], q: u8[8]) -> (f32[2,4], f32[8]) {
  %p = f32[8,4]{1,0} parameter(0)
  %q = u8[8]{0} parameter(1)
  %part = f32[2,4]{1,0} slice(%p), slice={[0:2], [0:4]}
  %wide = f32[8]{0} convert(%q)
  ROOT %both = (f32[2,4]{1,0}, f32[8]{0}) tuple(%part, %wide)
}

%updated (whole: f32[100,4], row: f32[1,4], at: s32[]) -> f32[100,4] {
  %whole = f32[100,4]{1,0} parameter(0)
  %row = f32[1,4]{1,0} parameter(1)
  %at = s32[] parameter(2)
  %zero = s32[] constant(0)
  ROOT %new = f32[100,4]{1,0} dynamic-update-slice(%whole, %row, %at, %zero)
}

%inner (x: f32[8,4], y: f32[4,2]) -> f32[8,2] {
  %x = f32[8,4]{1,0} parameter(0)
  %y = f32[4,2]{1,0} parameter(1)
  ROOT %dot = f32[8,2]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (state: (s32[], f32[8,4], f32[4,2])) -> (s32[], f32[8,4], f32[4,2]) {
  %state = (s32[], f32[8,4]{1,0}, f32[4,2]{1,0}) parameter(0)
  %left = f32[8,4]{1,0} get-tuple-element(%state), index=1
  %right = f32[4,2]{1,0} get-tuple-element(%state), index=2
  %call = (f32[8,2]{1,0}, s8[4194304]{0}) custom-call(%left, /*index=1*/%right), \
custom_call_target="__cublas$gemm", \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
  %fused = f32[8,2]{1,0} fusion(%left, %right), kind=kCustom, calls=%inner, metadata={op_name="a(b)"}
  ROOT %next = (s32[], f32[8,4]{1,0}, f32[4,2]{1,0}) tuple(%state, %left, %right)
}

%going (state.1: (s32[], f32[8,4], f32[4,2])) -> pred[] {
  %state.1 = (s32[], f32[8,4]{1,0}, f32[4,2]{1,0}) parameter(0)
  ROOT %yes = pred[] constant(true)
}

%kept (k: f32[100,4]) -> f32[100,4] {
  ROOT %k = f32[100,4]{1,0} parameter(0)
}

%spread (g: f32[100,4]) -> f32[100,4] {
  %g = f32[100,4]{1,0} parameter(0)
  ROOT %gathered = f32[100,4]{1,0} all-gather(%g), dimensions={0}
}

ENTRY %main (one: f32[8,4], two: f32[4,2], codes: u8[8], big: f32[100,4], \
row.1: f32[1,4], i: s32[]) -> f32[8] {
  %one = f32[8,4]{1,0} parameter(0)
  %two = f32[4,2]{1,0} parameter(1)
  %codes = u8[8]{0} parameter(2)
  %big = f32[100,4]{1,0} parameter(3)
  %row.1 = f32[1,4]{1,0} parameter(4)
  %i = s32[] parameter(5)
  %cut = (f32[2,4]{1,0}, f32[8]{0}) fusion(%one, %codes), kind=kLoop, calls=%sliced
  %write = f32[100,4]{1,0} fusion(%big, %row.1, %i), kind=kLoop, calls=%updated
  %loop = (s32[], f32[8,4]{1,0}, f32[4,2]{1,0}) while(%cut), condition=%going, body=%body
  %either = f32[100,4]{1,0} conditional(%i, %write, %write), branch_computations={%kept, %spread}
  ROOT %sums = f32[8]{0} reduce(%one, %i), dimensions={1}, to_apply=%add
}
"""


@pytest.fixture(scope="module")
def program():
    return hlo.parse(TEXT)


@pytest.fixture(scope="module")
def kernels(program):
    return {k.name: k for name in ("main", "body") for k in program.kernels(name)}


def test_a_fusion_reads_of_what_it_slices_the_slices(kernels):
    assert kernels["cut"][2:] == (2 * 4 * 4 + 8, 2 * 4 * 4 + 8 * 4, 0)


def test_an_update_in_place_moves_the_update_only(kernels):
    assert kernels["write"][2:] == (4 * 4 + 4, 4 * 4, 0)


@pytest.mark.parametrize("name", ["call", "fused"])
def test_a_product_counts_two_operations_per_pair_and_no_scratch_space(kernels, name):
    assert kernels[name][2:] == (4 * (8 * 4 + 4 * 2), 4 * 8 * 2, 2 * 8 * 4 * 2)


def test_what_moves_nothing_is_no_kernel(kernels):
    assert kernels.keys() == {"cut", "write", "sums", "call", "fused"}


def test_the_busiest_computation_is_the_loop_with_the_products(program):
    assert program.entry == "main"
    assert program.busiest() == "body"


def test_everything_that_a_computation_runs_is_reachable(program):
    assert "all-gather" in {each.op for each in program.reachable("main")}
    assert {"custom-call", "dot"} <= {each.op for each in program.reachable("main")}
    assert "all-gather" not in {each.op for each in program.reachable("body")}
