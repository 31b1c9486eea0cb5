"""The reference posteriors: complete, precise enough, and equal to what a second computation gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.accuracy import reference
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, gammaln, log_expit, logsumexp
from statistical.exact import EXACT
from statistical.problems import PROBLEMS, TEST_INPUTS, network

MONTE_CARLO = ["logistic", "neural_network"]


def prior_draws(problem, n, seed=0):
    return jax.vmap(problem.prior.sample)(jax.random.split(jax.random.key(seed), n))


def log_likelihoods(problem, particles):
    """Log-likelihood of all data per particle, in double precision from the sum on."""
    x, y = problem.data()
    each = jax.jit(jax.vmap(lambda particle: problem.log_likelihood(particle, x, y)))(particles)
    return np.asarray(each, np.float64).sum(axis=1)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_gives_one_finite_log_likelihood_per_example(name):
    problem = PROBLEMS[name]
    x, y = problem.data()
    assert x.dtype == y.dtype == np.float32
    particles = prior_draws(problem, 200)
    found = jax.vmap(lambda particle: problem.log_likelihood(particle, x, y))(particles)
    assert found.shape == (200, len(x))
    assert np.isfinite(found).all()
    assert sum(leaf[0].size for leaf in jax.tree.leaves(particles)) == problem.n_parameters


def scipy_log_likelihood(name, p, x, y):
    """Every model a second time, by SciPy's densities."""
    if name == "poisson":
        return stats.poisson.logpmf(y, np.exp(x @ p["slope"] + p["intercept"]))
    if name == "logistic":
        return stats.bernoulli.logpmf(y, expit(x @ p["slope"] + p["intercept"]))
    if name == "neural_network":
        units = np.tanh(x @ p["hidden"]["kernel"][None] + p["hidden"]["bias"])
        return stats.norm.logpdf(y, units @ p["output"]["kernel"] + p["output"]["bias"], 0.2)
    if name == "funnel":
        return stats.norm.logpdf(y, p["theta"], x[:, 1])
    if name == "two_modes":
        slope = p["slope"] * [1, p["theta"]]
        return stats.norm.logpdf(y, p["theta"] ** 2 + x @ slope)
    return stats.norm.logpdf(y, x @ p["slope"])


@pytest.mark.parametrize("name", PROBLEMS)
def test_log_likelihoods_are_normalised(name):
    problem = PROBLEMS[name]
    x, y = problem.data()
    # Near zero, where single precision loses little.
    particle = jax.tree.map(lambda leaf: leaf[0] / 4, prior_draws(problem, 1))
    found = problem.log_likelihood(particle, x, y)
    as_double = [jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), part) for part in (particle, x, y)]
    np.testing.assert_allclose(found, scipy_log_likelihood(name, *as_double), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_normalised_prior_is_the_prior(name):
    problem = PROBLEMS[name]
    a, b = (jax.tree.map(lambda leaf, i=i: leaf[i], prior_draws(problem, 2)) for i in range(2))
    ratio = problem.log_prior(a) - problem.log_prior(b)
    np.testing.assert_allclose(ratio, problem.prior.log_ratio(a, b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_draws_of_the_prior_follow_its_density(name):
    problem = PROBLEMS[name]
    draws = prior_draws(problem, 40_000)
    slopes = jax.vmap(jax.grad(problem.log_prior))(draws)
    # Integration by parts: E[p dlog q0(p)/dp] = -1 and E[dlog q0(p)/dp] = 0 for every parameter p.
    for leaf, slope in zip(jax.tree.leaves(draws), jax.tree.leaves(slopes), strict=True):
        np.testing.assert_allclose(np.mean(leaf * slope, axis=0), -1, atol=0.15)
        error = np.std(slope, axis=0) / np.sqrt(len(leaf))
        assert np.all(np.abs(np.mean(slope, axis=0)) < 5 * error)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_file_was_written_for_this_problem(name):
    problem, known = PROBLEMS[name], reference(name)["at_one_tenth"]
    shapes = jax.eval_shape(problem.prior.sample, jax.random.key(0))
    particle = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.1, jnp.float32), shapes)
    found = log_likelihoods(problem, jax.tree.map(lambda leaf: leaf[None], particle))[0]
    assert found == pytest.approx(known["log_likelihood"], rel=1e-5)
    assert problem.log_prior(particle) == pytest.approx(known["log_prior"], rel=1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_file_has_every_quantity(name):
    known = reference(name)
    found = PROBLEMS[name].quantities(prior_draws(PROBLEMS[name], 3))
    assert set(known["quantities"]) == set(found)
    for quantity, values in found.items():
        assert values.shape == (3, len(known["quantities"][quantity]["mean"]))
        assert np.all(np.array(known["quantities"][quantity]["sd"]) > 0)
    assert np.isfinite([known["log_evidence"], known["log_evidence_se"]]).all()


@pytest.mark.parametrize("name", EXACT)
def test_closed_forms_and_quadrature_are_what_the_file_says(name):
    known, truth = reference(name), EXACT[name]()
    assert truth.log_evidence == pytest.approx(known["log_evidence"], abs=1e-6)
    for quantity, values in known["quantities"].items():
        np.testing.assert_allclose(truth.mean[quantity], values["mean"], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(truth.sd[quantity], values["sd"], rtol=1e-6)


@pytest.mark.parametrize("name", ["funnel", "two_modes"])
def test_quadrature_has_converged(name):
    coarse, fine = EXACT[name](301 if name == "funnel" else 2_001), EXACT[name]()
    assert coarse.log_evidence == pytest.approx(fine.log_evidence, abs=1e-6)


@pytest.mark.parametrize("name", ["conjugate_3", "conjugate_50"])
def test_the_evidence_is_the_joint_density_over_that_of_the_posterior(name):
    problem, known = PROBLEMS[name], reference(name)
    x, _ = problem.data()
    covariance = np.linalg.inv(x.T.astype(np.float64) @ x + np.eye(x.shape[1]))
    mean = np.array(known["quantities"]["slope"]["mean"])
    slope = mean + 0.02
    joint = log_likelihoods(problem, {"slope": jnp.asarray(slope[None], jnp.float32)})[0]
    joint += float(problem.log_prior({"slope": jnp.asarray(slope, jnp.float32)}))
    posterior = stats.multivariate_normal(mean, covariance).logpdf(slope)
    assert joint - posterior == pytest.approx(known["log_evidence"], abs=0.01)


def test_the_evidence_of_the_funnel_is_the_mean_likelihood_of_prior_draws():
    problem, known = PROBLEMS["funnel"], reference("funnel")
    particles = prior_draws(problem, 100_000)
    log_weights = log_likelihoods(problem, particles)
    log_evidence = logsumexp(log_weights) - np.log(len(log_weights))
    assert log_evidence == pytest.approx(known["log_evidence"], abs=0.03)
    weights = np.exp(log_weights - logsumexp(log_weights))
    for name, values in problem.quantities(particles).items():
        sd = np.array(known["quantities"][name]["sd"])
        np.testing.assert_allclose(weights @ values / sd, known["quantities"][name]["mean"] / sd, atol=0.05)


def test_the_evidence_of_the_two_modes_is_that_of_a_grid_over_all_parameters():
    problem, known = PROBLEMS["two_modes"], reference("two_modes")
    sums = []
    for sign in (-1, 1):
        axes = (
            np.linspace(1.7, 2.3, 31) * sign,
            np.linspace(-0.2, 1.4, 31),
            np.linspace(-1.2, -0.3, 31) * sign,
        )
        theta, *slope = (part.ravel() for part in np.meshgrid(*axes))
        particles = {"theta": theta, "slope": np.stack(slope, axis=1)}
        particles = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), particles)
        joint = log_likelihoods(problem, particles) + np.asarray(jax.vmap(problem.log_prior)(particles))
        sums.append(logsumexp(joint) + sum(np.log(np.ptp(axis) / 30) for axis in axes))
    assert logsumexp(sums) == pytest.approx(known["log_evidence"], abs=1e-3)
    positive = known["quantities"]["positive"]["mean"][0]
    assert np.exp(sums[1] - logsumexp(sums)) == pytest.approx(positive, abs=1e-3)


def test_laplace_agrees_on_the_poisson_regression():
    x, y = (part.astype(np.float64) for part in PROBLEMS["poisson"].data())
    x = np.column_stack([x, np.ones(len(x))])

    def negative_log_joint(b):
        log_prior = -0.5 * b @ b - 1.5 * np.log(2 * np.pi)
        return -np.sum(y * (x @ b) - np.exp(x @ b) - gammaln(y + 1)) - log_prior

    found = minimize(negative_log_joint, np.zeros(3), jac=lambda b: x.T @ (np.exp(x @ b) - y) + b)
    covariance = np.linalg.inv(x.T @ (np.exp(x @ found.x)[:, None] * x) + np.eye(3))
    known = reference("poisson")
    log_evidence = -found.fun + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert log_evidence == pytest.approx(known["log_evidence"], abs=0.05)
    mean, sd = (
        np.concatenate([known["quantities"][name][which] for name in ("slope", "intercept")])
        for which in ("mean", "sd")
    )
    np.testing.assert_allclose((found.x - mean) / sd, 0, atol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)) / sd, 1, atol=0.02)


def test_laplace_agrees_roughly_on_the_logistic_regression():
    x, y = (part.astype(np.float64) for part in PROBLEMS["logistic"].data())
    x = np.column_stack([x, np.ones(len(x))])
    sign = 2 * y - 1

    def negative_log_joint(b):
        return -np.sum(log_expit(sign * (x @ b))) + 0.5 * b @ b + 0.5 * len(b) * np.log(2 * np.pi)

    def gradient(b):
        return b - x.T @ (sign * expit(-sign * (x @ b)))

    found = minimize(negative_log_joint, np.zeros(x.shape[1]), jac=gradient)
    probability = expit(x @ found.x)
    precision = x.T @ ((probability * (1 - probability))[:, None] * x) + np.eye(x.shape[1])
    log_evidence = -found.fun - 0.5 * np.linalg.slogdet(precision / (2 * np.pi))[1]
    assert log_evidence == pytest.approx(reference("logistic")["log_evidence"], abs=0.5)


@pytest.mark.parametrize("name", MONTE_CARLO)
def test_chains_have_mixed_and_are_long_enough(name):
    computed = reference(name)["computed"]
    assert computed["r_hat_max"] < 1.01
    assert computed["ess_min"] > 1 / 0.02**2  # means to 0.02 posterior standard deviations
    assert computed["ess_sd_min"] > 1 / (2 * 0.02**2)  # standard deviations to 2 %
    assert computed["divergent"] == 0


def test_estimates_of_the_evidence_by_different_means_agree():
    logistic = reference("logistic")["computed"]["log_evidence_by"]
    assert abs(logistic["importance sampling"] - logistic["bridge sampling"]) < 0.05
    network_evidence = reference("neural_network")
    assert np.ptp(list(network_evidence["computed"]["log_evidence_by"].values())) < 0.1
    assert network_evidence["log_evidence_se"] < 0.05


def test_what_is_compared_of_the_network_ignores_swapped_and_negated_units():
    particle = jax.tree.map(lambda leaf: leaf[0], prior_draws(PROBLEMS["neural_network"], 1))
    order = np.arange(16)[::-1]
    hidden, output = particle["hidden"], particle["output"]
    same = {
        "hidden": {name: -leaf[order] for name, leaf in hidden.items()},
        "output": {"kernel": -output["kernel"][order], "bias": output["bias"]},
    }
    np.testing.assert_allclose(
        network(same, TEST_INPUTS), network(particle, TEST_INPUTS), rtol=1e-4, atol=1e-5
    )
