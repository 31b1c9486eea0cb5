"""The experiments on what the published text leaves open: their own sampler, networks and command."""

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import jax
import numpy as np
import pytest
import variants as script
from curvature import largest_eigenvalue
from helpers import gaussian
from variant_models import changed_model, standardiser
from variant_sampler import sample_by_hand
from variants import VARIANTS

from smcda.data import dataset as datasets
from smcda.run.loop import Run
from smcda.settings import Settings


@pytest.mark.parametrize("minibatch", ["gradient", "particle"])
@pytest.mark.parametrize("kernel", ["ld", "hmc"])
def test_sampler_by_hand_is_the_sampler_where_all_minibatches_are_the_same(kernel, minibatch):
    """With one minibatch of all data it does not matter how often it is drawn."""
    n = gaussian.N_DATA
    settings = Settings("constant", kernel, particles=6, iterations=12, batch_size=n, step_size=0.7)
    run = Run(gaussian.log_likelihood, gaussian.prior(), *gaussian.data(), settings, seed=3)
    particles, log_weights = sample_by_hand(run, settings, 3, minibatch)
    run.advance(settings.iterations)
    assert run.trace()["resampled"].any()
    np.testing.assert_allclose(particles, run.state.particles, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(log_weights, run.state.log_weights, atol=1e-3)


def test_without_weights_particles_move_as_in_the_sampler_that_never_resamples():
    """J_eff is never below one, so that two particles are never resampled."""
    settings = Settings("constant", "hmc", particles=2, iterations=12, batch_size=5, step_size=0.3)
    run = Run(gaussian.log_likelihood, gaussian.prior(), *gaussian.data(), settings, seed=3)
    particles, _ = sample_by_hand(run, settings, 3, "iteration", weighted=False)
    run.advance(settings.iterations)
    np.testing.assert_allclose(particles, run.state.particles, rtol=1e-4, atol=1e-5)


def test_without_weights_no_particle_depends_on_another():
    settings = Settings("constant", "hmc", particles=6, iterations=12, batch_size=5, step_size=0.3)
    run = Run(gaussian.log_likelihood, gaussian.prior(), *gaussian.data(), settings, seed=3)
    particles, log_weights = sample_by_hand(run, settings, 3, "iteration", weighted=False)
    assert len({tuple(np.asarray(particle)) for particle in particles}) == 6
    np.testing.assert_allclose(np.exp(log_weights), 1 / 6, rtol=1e-6)


def test_variants_differ_in_one_thing_from_what_they_stand_beside():
    def choices(variant):
        return variant.settings, variant.model, variant.minibatch, variant.weighted

    for name, variant in VARIANTS.items():
        changes = zip(choices(variant), choices(VARIANTS[variant.beside]), strict=True)
        assert sum(one != other for one, other in changes) == (name != "default"), name


def test_a_variant_without_data_is_refused_in_one_line(tmp_path):
    options = {"variant": "default", "data": tmp_path / "none.npz", "network": "lenet5", "kernel": "ld"}
    options |= {"seed": 0, "out": tmp_path / "out.json"}
    command = [sys.executable, script.__file__]
    command += [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "none.npz" in done.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.fixture(scope="module")
def images():
    bundled = datasets.load(Path(datasets.__file__).parent / "bundled" / "mnist.npz")
    return bundled._replace(train_x=bundled.train_x[:40], train_y=bundled.train_y[:40])


def shapes(model):
    return jax.tree.leaves(jax.eval_shape(model.prior.sample, jax.random.key(0)))


OF_STUDY = {"prior_scale": 0.1, "batch_norm": False}


@pytest.mark.parametrize("changes", [{}, {"standardised": True}, {"max_pooling": True}])
def test_the_prior_of_the_study_stays_unless_it_is_what_changes(images, changes):
    def spread(**choices):
        model, *_ = changed_model("lenet5", images, **(OF_STUDY | changes | choices))
        drawn = jax.tree.leaves(model.prior.sample(jax.random.key(0)))
        return np.concatenate([np.ravel(leaf) for leaf in drawn]).std()

    assert spread() == pytest.approx(0.1, rel=0.02)
    assert spread(prior_scale=0.2) == pytest.approx(0.2, rel=0.02)
    sizes = {25: 156, 150: 2_416, 400: 48_120, 120: 10_164, 84: 850}  # fan-in: parameters of the layer
    variance = sum(count / fan_in for fan_in, count in sizes.items()) / sum(sizes.values())
    assert spread(prior_scale=None) == pytest.approx(variance**0.5, rel=0.02)


@pytest.mark.parametrize("name", ["fan_in_prior", "prior_scale_0.2", "no_batch_norm", "particles_8"])
def test_a_variant_of_the_model_overrules_the_study_and_no_other_does(name):
    options = Namespace(prior_scale=0.1, batch_norm=True)
    changed = {"fan_in_prior": {"prior_scale": None}, "prior_scale_0.2": {"prior_scale": 0.2}}
    changed |= {"no_batch_norm": {"batch_norm": False}, "particles_8": {}}
    expected = {"prior_scale": 0.1, "batch_norm": True} | changed[name]
    assert script.choices(VARIANTS[name], options) == expected


def test_standardised_pixels_have_mean_0_and_variance_1(images):
    pixels = np.asarray(standardiser(images.train_x)(images.train_x)) / 255
    assert pixels.mean() == pytest.approx(0, abs=1e-5)
    assert pixels.std() == pytest.approx(1, rel=1e-5)


def test_max_pooling_changes_no_shape_but_the_logits(images):
    (pooled, *_), (plain, *_) = (
        changed_model("lenet5", images, **OF_STUDY, max_pooling=pooled) for pooled in (True, False)
    )
    assert sorted(leaf.shape for leaf in shapes(pooled)) == sorted(leaf.shape for leaf in shapes(plain))
    parameters = plain.prior.sample(jax.random.key(0))
    renamed = dict(zip(pooled.prior.sample(jax.random.key(0)), parameters.values(), strict=True))
    x = jax.numpy.asarray(images.train_x)
    one, other = pooled.logits(renamed, x), plain.logits(parameters, x)
    assert np.abs(one - other).max() > 0.01


@pytest.mark.parametrize(("batch_norm", "together"), [(True, 500), (False, None)])
def test_images_stay_together_where_they_are_normalised(images, batch_norm, together):
    assert changed_model("fashion_cnn", images, prior_scale=None, batch_norm=batch_norm)[2] == together


def test_the_largest_eigenvalue_of_a_known_hessian_is_found():
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    hessian = jax.numpy.asarray(rotation @ np.diag([9.0, 5.0, 3.0, 1.0, 0.5, -2.0]) @ rotation.T, "float32")
    start = jax.numpy.ones(6)
    found, vector = largest_eigenvalue(lambda x: x @ hessian @ x / 2 + x.sum(), start, start)
    assert float(found) == pytest.approx(9.0, rel=1e-4)
    np.testing.assert_allclose(np.abs(vector / np.linalg.norm(vector)), np.abs(rotation[:, 0]), atol=1e-3)
