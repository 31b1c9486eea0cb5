"""What a run caches, counts and does not depend on, on a small regression with a known shape."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smcda.config import SamplerConfig
from smcda.errors import BadInput, Diverged
from smcda.models import priors
from smcda.models.base import Model
from smcda.runs.loop import Run
from smcda.runs.run import sample
from smcda.smc.likelihood import xla_likelihood
from smcda.smc.schedules import SCHEDULES, make_schedule
from smcda.smc.schedules.fixed import FIXED

N_DATA = 101
SMALL = {"particles": 9, "iterations": 14, "batch_size": 10, "initial_batch": 15, "step_size": 0.05}
FIXED_SMALL = SMALL | {"scheme": "linear"}


def problem():
    """A two-layer regression: a pytree of parameters, heavy-tailed noise, images of no kind."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N_DATA, 2, 2)).astype(np.float32)
    y = (np.sin(2 * x[:, 0, 0]) + x[:, 1, 1] + 0.1 * rng.standard_t(3, N_DATA)).astype(np.float32)

    def log_likelihood(parameters, x, y):
        hidden = jnp.tanh(x.reshape(len(x), 4) @ parameters["inner"] + parameters["shift"])
        return -jnp.log1p((y - hidden @ parameters["outer"]) ** 2 / 0.5)

    mean = {"inner": jnp.zeros((4, 3)), "shift": jnp.zeros(3), "outer": jnp.zeros(3)}
    return log_likelihood, priors.gaussian(mean, jax.tree.map(jnp.ones_like, mean)), x, y


def start(scheme, kernel="ld", seed=5, **others):
    log_likelihood, prior, x, y = problem()
    settings = SMALL | others
    if scheme == "adaptive":
        del settings["step_size"]
    config = SamplerConfig(scheme=scheme, kernel=kernel, **settings)
    return Run(Model.from_log_likelihood(log_likelihood, prior), x, y, config, seed)


@functools.cache
def fresh_sums():
    """The likelihood sums of given particles, nothing cached: one program for all schemes and kernels."""
    return jax.jit(xla_likelihood(problem()[0], start("full_batch").flat.unravel, 3, 9))


@pytest.mark.parametrize(
    ("scheme", "kernel"), [*((scheme, "hmc") for scheme in SCHEDULES), ("linear", "ld"), ("adaptive", "ld")]
)
def test_cached_sums_equal_fresh_ones_after_every_iteration(scheme, kernel):
    # One that waits until the particles have settled needs more to come to further data.
    iterations = 60 if scheme == "adaptive" else SMALL["iterations"]
    run = start(scheme, kernel, step_size=0.25, weight_target="previous", iterations=iterations)
    while not run.is_finished:
        run.advance(1)
        expected = fresh_sums()(run.state.particles, run.data, run.state.window)
        np.testing.assert_allclose(run.state.likelihood.value, expected.value, rtol=2e-5, atol=2e-4)
        np.testing.assert_allclose(run.state.likelihood.gradient, expected.gradient, rtol=2e-4, atol=2e-3)
    trace = run.trace()
    assert trace["resampled"].any()
    assert len(set(trace["batch_size"])) > 1 or scheme in ("constant", "full_batch")


@pytest.mark.parametrize(
    ("scheme", "kernel", "steps"),
    [*((scheme, "hmc", 3) for scheme in FIXED), ("linear", "ld", 1), ("linear", "hmc", 5)],
)
def test_gradient_evaluations_are_those_of_the_formula(scheme, kernel, steps):
    run = start(scheme, kernel, leapfrog_steps=steps)
    run.advance(SMALL["iterations"])
    trace = run.trace()
    plan = make_schedule(run.config, N_DATA).plan
    expected, total, before, was_fresh = [], 0, 0, False
    for size, fresh in zip(plan.size.tolist(), plan.fresh.tolist(), strict=True):
        arriving = size if fresh or was_fresh else size - before
        total += steps * size + arriving
        before, was_fresh = size, fresh
        expected.append(SMALL["particles"] * total)
    assert trace["gradient_evaluations"].tolist() == expected
    np.testing.assert_array_equal(trace["batch_size"], plan.size)


def test_smooth_annealing_counts_each_joining_minibatch_once():
    run = start("smooth_data_annealing", "hmc", iterations=40)
    run.advance(40)
    trace = run.trace()
    sizes = trace["batch_size"].astype(int)
    assert len(set(sizes)) > 2
    arriving = np.diff(sizes, prepend=0)
    np.testing.assert_array_equal(trace["gradient_evaluations"], 9 * np.cumsum(3 * sizes + arriving))


@functools.cache
def uncut(scheme):
    # Short enough that rounding has no time to change which particle is drawn.
    run = start(scheme, iterations=6)
    run.advance(6)
    return run.state


@pytest.mark.parametrize(
    ("scheme", "micro_batch", "particle_chunk"),
    [
        *(("smooth_data_annealing", *cut) for cut in [(1, 9), (7, 2), (64, 4), (200, 1)]),
        ("linear", 7, 2),
        ("constant_to_refine", 7, 2),
    ],
)
def test_the_result_does_not_depend_on_how_the_work_is_cut(scheme, micro_batch, particle_chunk):
    reference = uncut(scheme)
    run = start(scheme, iterations=6, micro_batch=micro_batch, particle_chunk=particle_chunk)
    run.advance(6)
    np.testing.assert_allclose(run.state.particles, reference.particles, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(run.state.log_weights, reference.log_weights, atol=2e-3)
    np.testing.assert_array_equal(run.state.root_ancestor, reference.root_ancestor)


def test_looking_more_often_changes_nothing():
    often, once = start("smooth_data_annealing", "hmc"), start("smooth_data_annealing", "hmc")
    for _ in range(SMALL["iterations"]):
        often.advance(1)
    once.advance(1_000)
    once.advance(1)  # past the end: nothing is left to do
    for a, b in zip(jax.tree.leaves(often.state), jax.tree.leaves(once.state), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in set(often.trace()) - {"runtime_s"}:
        np.testing.assert_array_equal(often.trace()[name], once.trace()[name])


def test_the_seed_decides_the_result_to_the_bit():
    first, again, other = (
        sample(*problem(), SamplerConfig(scheme="linear", **SMALL), seed=seed) for seed in (1, 1, 2)
    )
    for a, b in zip(jax.tree.leaves(first.params), jax.tree.leaves(again.params), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.params["inner"], other.params["inner"])


def test_parameters_come_back_in_the_shape_the_prior_draws():
    posterior = sample(*problem(), SamplerConfig(scheme="automated", kernel="hmc", **SMALL))
    shapes = {name: leaf.shape for name, leaf in posterior.params.items()}
    assert shapes == {"inner": (9, 4, 3), "shift": (9, 3), "outer": (9, 3)}
    assert posterior.weights.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("scheme", "weight_target", "is_exact"),
    [
        ("full_batch", "current", True),
        ("full_batch", "previous", True),
        ("linear", "previous", True),
        ("linear", "current", False),
        ("constant", "previous", False),
        # In principle, but fresh minibatches of two leave no ancestor but one.
        ("constant_to_refine", "previous", False),
        ("adaptive", "current", True),
    ],
)
def test_evidence_is_given_only_where_it_is_exact(scheme, weight_target, is_exact):
    # Six examples, so that many of the first draws live on.
    log_likelihood, prior, x, y = problem()
    run = start_with(log_likelihood, prior, x[:6], y[:6], scheme, weight_target)
    run.advance(1_000)
    found = run.diagnose()
    assert (found.log_evidence is not None) == is_exact, found.doubts
    assert (found.log_evidence_error is not None) == is_exact


def start_with(log_likelihood, prior, x, y, scheme, weight_target):
    own = {} if scheme == "adaptive" else {"step_size": 0.1, "iterations": 40}
    config = SamplerConfig(scheme, particles=400, weight_target=weight_target, batch_size=2, **own)
    return Run(Model.from_log_likelihood(log_likelihood, prior), x, y, config, 5)


def test_root_ancestors_only_die_out():
    run = start("linear", iterations=30)
    run.advance(30)
    ancestors = run.trace()["unique_ancestors"]
    assert np.all(np.diff(ancestors) <= 0)
    assert 1 <= ancestors[-1] < SMALL["particles"]


def test_a_particle_off_the_target_s_support_gets_no_weight_and_no_say():
    log_likelihood, prior, x, y = problem()

    def with_a_cliff(parameters, x, y):
        return jnp.where(parameters["shift"][0] > 0, log_likelihood(parameters, x, y), jnp.nan)

    run = Run(
        Model.from_log_likelihood(with_a_cliff, prior),
        x,
        y,
        SamplerConfig(scheme="smooth_data_annealing", **SMALL),
        5,
    )
    run.advance(SMALL["iterations"])
    assert np.all(np.isfinite(run.trace()["beta"]))
    assert np.all(np.isfinite(run.trace()["log_likelihood"]))
    weights = np.exp(run.state.log_weights)
    shift = jax.vmap(run.flat.unravel)(run.state.particles)["shift"][:, 0]
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert np.all(shift[weights > 0] > 0)


def test_a_run_that_loses_every_particle_says_where_and_what_to_do():
    run = start("full_batch", step_size=1e25)
    with pytest.raises(Diverged, match=r"iteration 0 with step_size h = 1e\+25: lower it"):
        run.advance(3)


def test_a_prior_without_support_diverges_at_the_start():
    log_likelihood, prior, x, y = problem()
    with pytest.raises(Diverged, match="no particle drawn from the prior"):
        sample(lambda p, x, y: log_likelihood(p, x, y) + jnp.nan, prior, x, y, SamplerConfig(**FIXED_SMALL))


def test_unknown_settings_and_uneven_data_are_refused():
    log_likelihood, prior, x, y = problem()
    with pytest.raises(TypeError, match="stepsize"):
        SamplerConfig(stepsize=0.1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(BadInput, match="x has 101 examples and y 100"):
        sample(log_likelihood, prior, x, y[1:], SamplerConfig(**FIXED_SMALL))
    with pytest.raises(BadInput, match=r"batch_size \(kappa\) is 102, more than the 101"):
        sample(log_likelihood, prior, x, y, SamplerConfig(**FIXED_SMALL | {"batch_size": 102}))


@pytest.mark.parametrize(
    ("change", "shape"),
    [(jnp.sum, r"\(\)"), (lambda each: each[:, None], r"\(10, 1\)")],
    ids=["sum", "column"],
)
def test_a_log_likelihood_that_is_not_one_number_per_example_is_refused(change, shape):
    log_likelihood, prior, x, y = problem()
    with pytest.raises(BadInput, match=rf"gives shape {shape} for \d+ examples, but must give \(\d+,\)"):
        sample(
            lambda p, x, y: change(log_likelihood(p, x, y)),
            prior,
            x,
            y,
            SamplerConfig(**FIXED_SMALL | {"micro_batch": 10}),
        )


def test_values_that_are_not_finite_are_named_and_not_blamed_on_the_step_size():
    log_likelihood, prior, x, y = problem()
    x[17, 0, 1] = np.nan
    with pytest.raises(BadInput, match="1 row has a value in x that is not finite, first row 17"):
        sample(log_likelihood, prior, x, y, SamplerConfig(**FIXED_SMALL))
    with pytest.raises(BadInput, match="y is of type <U1, but must be numbers"):
        sample(log_likelihood, prior, np.nan_to_num(x), np.full(len(x), "a"), SamplerConfig(**FIXED_SMALL))
    with pytest.raises(BadInput, match="scale of a normal prior is 0.*must be finite and above 0"):
        priors.gaussian({"slope": np.zeros(2)}, {"slope": 0.0})


@pytest.mark.parametrize("seed", [2**40, -1])
def test_a_seed_that_would_be_another_is_refused(seed):
    with pytest.raises(BadInput, match="seed is"):
        sample(*problem(), SamplerConfig(**FIXED_SMALL), seed=seed)
