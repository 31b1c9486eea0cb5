"""Write tests/statistical/reference.json: posterior moments and evidence of the test problems.

Closed forms, quadrature, importance sampling and NUTS; never a sampler of this package. With names, only
these problems are computed again:

python tools/write_reference_posteriors.py [PROBLEM ...]
"""

import argparse
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
jax.config.update("jax_enable_x64", True)

import reference_methods as methods  # noqa: E402
from statistical.exact import EXACT  # noqa: E402
from statistical.problems import PROBLEMS  # noqa: E402

PATH = ROOT / "tests" / "statistical" / "reference.json"
SEED = 2026


class Flat(NamedTuple):
    """A problem on flat vectors in double precision."""

    log_likelihood: Callable[[Any], Any]
    log_prior: Callable[[Any], Any]
    quantities: Callable[[Any], dict[str, Any]]
    prior_draws: Callable[[int], np.ndarray]
    n_parameters: int

    def log_density(self, position: Any) -> Any:
        """Unnormalised log posterior density, whose integral is the evidence."""
        return self.log_likelihood(position) + self.log_prior(position)


def flatten(name: str) -> Flat:
    """Look up a problem and ravel its parameters."""
    problem = PROBLEMS[name]
    x, y = (jnp.asarray(part, jnp.float64) for part in problem.data())
    _, unravel = ravel_pytree(problem.prior.sample(jax.random.key(0)))

    def prior_draws(n: int) -> np.ndarray:
        keys = jax.random.split(jax.random.key(SEED), n)
        return np.asarray(jax.vmap(lambda key: ravel_pytree(problem.prior.sample(key))[0])(keys))

    return Flat(
        lambda position: jnp.sum(problem.log_likelihood(unravel(position), x, y)),
        lambda position: problem.log_prior(unravel(position)),
        lambda draws: problem.quantities(jax.vmap(unravel)(jnp.asarray(draws))),
        prior_draws,
        problem.n_parameters,
    )


def entry(
    moments: dict[str, tuple[np.ndarray, np.ndarray]], log_evidence: float, se: float, **computed: Any
) -> dict[str, Any]:
    """One problem's part of the file."""
    quantities = {
        name: {"mean": np.asarray(mean).tolist(), "sd": np.asarray(sd).tolist()}
        for name, (mean, sd) in moments.items()
    }
    return {
        "quantities": quantities,
        "log_evidence": log_evidence,
        "log_evidence_se": se,
        "computed": computed,
    }


def from_exact(name: str, method: str) -> dict[str, Any]:
    """Closed form or quadrature."""
    truth = EXACT[name]()
    moments = {quantity: (truth.mean[quantity], truth.sd[quantity]) for quantity in truth.mean}
    return entry(moments, truth.log_evidence, 0.0, method=method)


def from_importance_sampling(name: str, n_draws: int) -> dict[str, Any]:
    """Moments and evidence by importance sampling from a Student t at the mode, Laplace beside it."""
    flat = flatten(name)
    mode = methods.find_mode(flat.log_density, np.zeros(flat.n_parameters))
    found = methods.importance_sampling(flat.log_density, mode, n_draws, SEED)
    return entry(
        weighted_moments(flat, found),
        found.log_evidence,
        found.log_evidence_se,
        method="importance sampling from a Student t at the mode",
        draws=n_draws,
        ess=found.ess,
        seed=SEED,
        log_evidence_by={"importance sampling": found.log_evidence, "Laplace": mode.laplace()},
    )


def numpy_quantities(flat: Flat, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Quantities as arrays of the host."""
    return {name: np.asarray(values) for name, values in flat.quantities(draws).items()}


def weighted_moments(flat: Flat, found: methods.Weighted) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and standard deviation of the quantities under importance weights."""
    moments = {}
    for name, values in numpy_quantities(flat, found.draws).items():
        mean = found.weights @ values
        moments[name] = mean, np.sqrt(found.weights @ (values - mean) ** 2)
    return moments


def from_unimodal_chains(name: str, n_chains: int, n_warmup: int, n_draws: int) -> dict[str, Any]:
    """Moments by NUTS; evidence by importance sampling and by bridge sampling from the chains."""
    flat = flatten(name)
    starts = flat.prior_draws(n_chains)[None]
    chains = methods.nuts(
        lambda _, position: flat.log_density(position),
        np.ones(1),
        starts,
        lambda position: position,
        n_warmup,
        n_draws,
        SEED,
    )
    draws = chains.values[0]
    mode = methods.find_mode(flat.log_density, np.zeros(flat.n_parameters))
    found = methods.importance_sampling(flat.log_density, mode, 400_000, SEED)
    bridge, bridge_se = methods.bridge_sampling(flat.log_density, draws, SEED)
    quantities = numpy_quantities(flat, draws.reshape(-1, flat.n_parameters))
    moments = {quantity: (values.mean(axis=0), values.std(axis=0)) for quantity, values in quantities.items()}
    others = weighted_moments(flat, found)
    gaps = [np.abs(moments[q][0] - others[q][0]) / others[q][1] for q in moments]
    sd_gaps = [np.abs(moments[q][1] / others[q][1] - 1) for q in moments]
    return entry(
        moments,
        found.log_evidence,
        found.log_evidence_se,
        method="moments by NUTS, evidence by importance sampling from a Student t at the mode",
        chains=n_chains,
        warmup=n_warmup,
        draws=n_draws,
        seed=SEED,
        **methods.diagnose(draws),
        divergent=chains.n_divergent,
        leapfrog_steps_per_draw=chains.n_leapfrog,
        importance_sampling_ess=found.ess,
        largest_mean_gap_to_importance_sampling_in_sd=float(np.concatenate(gaps).max()),
        largest_sd_gap_to_importance_sampling=float(np.concatenate(sd_gaps).max()),
        log_evidence_by={
            "importance sampling": found.log_evidence,
            "bridge sampling": bridge,
            "Laplace": mode.laplace(),
        },
        bridge_sampling_se=bridge_se,
    )


def from_tempered_chains(
    name: str, n_chains: int, n_warmup: int, n_draws: int, n_ladder_draws: int, n_betas: int
) -> dict[str, Any]:
    """Moments by NUTS from prior draws; evidence from a ladder of tempered posteriors.

    Each chain has a ladder of its own, so that the evidence of the chains is independent and its spread is
    the standard error.
    """
    flat = flatten(name)

    def tempered(beta: Any, position: Any) -> Any:
        return beta * flat.log_likelihood(position) + flat.log_prior(position)

    def at_one(position: Any) -> tuple[dict[str, Any], Any]:
        values = flat.quantities(position[None])
        return {quantity: value[0] for quantity, value in values.items()}, flat.log_likelihood(position)

    betas = np.linspace(0, 1, n_betas) ** 5
    draws = flat.prior_draws(n_chains * (n_betas + n_ladder_draws))
    starts, prior_draws = np.split(draws, [n_chains * n_betas])
    starts = starts.reshape(n_betas, n_chains, flat.n_parameters)
    final = methods.nuts(tempered, betas[-1:], starts[-1:], at_one, n_warmup, n_draws, SEED)
    ladder = methods.nuts(
        tempered, betas[1:-1], starts[1:-1], flat.log_likelihood, n_warmup, n_ladder_draws, SEED + 1
    )
    by_prior = methods.evaluate(flat.log_likelihood, prior_draws).reshape(n_chains, n_ladder_draws)
    values, at_posterior = jax.tree.map(lambda part: part[0], final.values)
    by_chain = np.array(
        [
            methods.ladder_evidence(betas, [by_prior[chain], *ladder.values[:, chain], at_posterior[chain]])
            for chain in range(n_chains)
        ]
    )
    estimates = dict(zip(methods.Ladder._fields, by_chain.mean(axis=0).tolist(), strict=True))
    errors = by_chain.std(axis=0, ddof=1) / np.sqrt(n_chains)
    stacked = np.concatenate(list(values.values()), axis=-1)
    steps = [methods.diagnose(each[..., None])["r_hat_max"] for each in ladder.values]
    return entry(
        {quantity: (part.mean(axis=(0, 1)), part.std(axis=(0, 1))) for quantity, part in values.items()},
        estimates["bridge"],
        float(errors[0]),
        method="moments by NUTS from prior draws, evidence by bridges between tempered posteriors by NUTS",
        chains=n_chains,
        warmup=n_warmup,
        draws=n_draws,
        seed=SEED,
        **methods.diagnose(stacked),
        divergent=final.n_divergent,
        leapfrog_steps_per_draw=final.n_leapfrog,
        betas=betas.tolist(),
        ladder_draws=n_ladder_draws,
        ladder_r_hat_max=max(steps),
        ladder_divergent=ladder.n_divergent,
        log_evidence_by=estimates,
        log_evidence_by_se=dict(zip(methods.Ladder._fields, errors.tolist(), strict=True)),
    )


def at_one_tenth(name: str) -> dict[str, float]:
    """Densities where every parameter is 0.1, by which a test sees that a problem was changed since."""
    flat = flatten(name)
    position = jnp.full(flat.n_parameters, 0.1)
    return {
        "log_likelihood": float(flat.log_likelihood(position)),
        "log_prior": float(flat.log_prior(position)),
    }


METHODS = {
    "conjugate_3": partial(from_exact, method="closed form"),
    "conjugate_50": partial(from_exact, method="closed form"),
    "poisson": partial(from_importance_sampling, n_draws=400_000),
    "logistic": partial(from_unimodal_chains, n_chains=8, n_warmup=1_000, n_draws=8_000),
    "neural_network": partial(
        from_tempered_chains, n_chains=8, n_warmup=400, n_draws=4_000, n_ladder_draws=1_500, n_betas=36
    ),
    "funnel": partial(from_exact, method="theta integrated out, quadrature over mu and log tau"),
    "two_modes": partial(from_exact, method="slopes integrated out, quadrature over theta"),
}


def main() -> None:
    """Compute the chosen problems and rewrite the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help=f"any of {', '.join(METHODS)}")
    chosen = parser.parse_args().problems or list(METHODS)
    if unknown := [name for name in chosen if name not in METHODS]:
        parser.error(f"unknown problem {unknown[0]!r}: choose from {', '.join(METHODS)}")
    written = json.loads(PATH.read_text()) if PATH.exists() else {}
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "jax", "blackjax")}
    for name in chosen:
        started = time.perf_counter()
        written[name] = METHODS[name](name)
        minutes = (time.perf_counter() - started) / 60
        written[name]["computed"] |= {"minutes": round(minutes, 2), "versions": versions}
        written[name]["at_one_tenth"] = at_one_tenth(name)
        ordered = {name: written[name] for name in METHODS if name in written}
        PATH.write_text(json.dumps(ordered, indent=1) + "\n")
        print(f"{name}: log evidence {written[name]['log_evidence']:.4f}, {minutes:.1f} minutes")


if __name__ == "__main__":
    main()
