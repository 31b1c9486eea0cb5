"""What a plan chooses for a device: precision of products, and how many particles fit."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models import likelihoods
from smcda.models.base import Model
from smcda.models.flat import flattened
from smcda.models.priors import gaussian
from smcda.parallel.plan import PRECISIONS, choose_precision, fitting_chunk, make_plan

CPU = jax.devices("cpu")[0]
GIB = 2**30


def gpu(capability):
    return SimpleNamespace(platform="gpu", device_kind="some GPU", compute_capability=capability)


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_cpu_computes_in_float32_whatever_is_chosen(name):
    assert choose_precision(name, CPU) == "highest"


def test_a_gpu_does_what_is_chosen_and_float32_unless_told():
    assert choose_precision(SamplerConfig().precision, gpu("8.0")) == "highest"
    assert choose_precision("tf32x3", gpu("9.0")) == "TF32_TF32_F32_X3"
    assert choose_precision("tf32", gpu("12.0")) == "TF32_TF32_F32"
    assert choose_precision("float32", gpu("7.5")) == "highest"


@pytest.mark.parametrize("capability", ["7.5", "gfx942"])
def test_tf32_is_refused_where_there_is_none(capability):
    with pytest.raises(BadInput, match="precision is tf32x3, but some GPU has no TF32.*choose float32"):
        choose_precision("tf32x3", gpu(capability))


def test_all_particles_go_at_once_where_they_fit():
    assert fitting_chunk(100, 100_000, 30 * GIB, 50 * 2**20) == 100


@pytest.mark.parametrize(("n_particles", "memory"), [(1_000, 6 * GIB), (1_000, 12 * GIB), (300, 6 * GIB)])
def test_a_chunk_leaves_room_for_what_a_move_holds_of_all_particles(n_particles, memory):
    each, parameters = 50 * 2**20, 96_658
    chunk = fitting_chunk(n_particles, parameters, memory, each)
    assert 1 < chunk < n_particles
    assert chunk * each + 12 * 4 * parameters * n_particles <= 0.9 * memory
    assert 2.5 * chunk * each + 12 * 4 * parameters * n_particles > 0.9 * memory, "no smaller than it must be"


def test_chunks_are_nearly_equal_and_at_least_one_particle():
    room_for_70 = (70 + 12 * 4 * 130) / 0.9
    assert fitting_chunk(130, 1, room_for_70 + 1, 1) == 44
    assert fitting_chunk(1_000, 10**6, 1 * GIB, 50 * 2**20) == 1


@pytest.fixture(scope="module")
def model():
    return Model(
        lambda parameters, x: x @ parameters, likelihoods.gaussian(1.0), gaussian(np.zeros((3, 2)), 1.0)
    )


@pytest.mark.parametrize("chunk", [2, 3, 5, 9])
def test_particles_predict_the_same_in_chunks(model, chunk):
    rng = np.random.default_rng(0)
    x, y = np.float32(rng.normal(size=(8, 3))), np.float32(rng.normal(size=(8, 2)))
    config = SamplerConfig("constant", particles=5, particle_chunk=chunk, batch_size=4).for_data(8)
    plan = make_plan(model, flattened(model.joint_prior), config, x, y, "xla")
    particles = np.float32(rng.normal(size=(5, 6)))
    expected = np.einsum("nk,jkl->jnl", x, particles.reshape(5, 3, 2))
    np.testing.assert_allclose(jax.jit(plan.outputs)(particles, x), expected, rtol=1e-5, atol=1e-6)
