"""The posterior predictive on fixed examples: computed in slices, by a program compiled once."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from smcda.models.base import Model, ParticleOutputs
from smcda.models.flat import flattened
from smcda.models.likelihoods import mix
from smcda.models.uncertainty import auroc
from smcda.parallel.plan import ExecutionPlan
from smcda.runs.compiled import compile_once
from smcda.smc.batches import count
from smcda.smc.likelihood import Particles

SLICE_LENGTH = 200


class Sliced:
    """``function(particles, log_weights, examples)``, of each example, on one fixed set of them."""

    def __init__(
        self,
        function: Callable[[Array, Array, Any], Any],
        examples: Any,
        particles: Particles,
        log_weights: Float[Array, " particle"],
    ) -> None:
        """Put the examples on the device, in slices whose last one is filled up, and compile.

        Of `particles` and `log_weights` only shape and placement matter, not their values.
        """
        self._n_examples = count(examples)
        n_slices = -(-self._n_examples // SLICE_LENGTH)
        rows = np.minimum(np.arange(n_slices * SLICE_LENGTH), self._n_examples - 1)

        def sliced(leaf: np.ndarray) -> Array:
            return jnp.asarray(leaf[rows].reshape(n_slices, SLICE_LENGTH, *leaf.shape[1:]))

        self._slices = jax.tree.map(sliced, examples)
        started = time.perf_counter()

        program = jax.jit(partial(slice_by_slice, function))
        self._predict, _ = compile_once(program.lower(particles, log_weights, self._slices))
        self.compile_s = time.perf_counter() - started

    def __call__(self, particles: Particles, log_weights: Float[Array, " particle"]) -> Any:
        """Arrays of the host, numbers in double precision."""

        def joined(part: Array) -> np.ndarray:
            kind = np.float64 if jnp.issubdtype(part.dtype, jnp.floating) else part.dtype
            return np.asarray(part, kind).reshape(-1, *part.shape[2:])[: self._n_examples]

        return jax.tree.map(joined, self._predict(particles, log_weights, self._slices))


def slice_by_slice(
    function: Callable[[Array, Array, Any], Any], particles: Array, log_weights: Array, slices: Any
) -> Any:
    """Apply ``function(particles, log_weights, examples)`` to one slice of examples after the other."""
    return jax.lax.map(lambda examples: function(particles, log_weights, examples), slices)


class Evaluator:
    """Scores weighted particles on one set of test examples."""

    def __init__(
        self,
        model: Model,
        plan: ExecutionPlan,
        unravel: Callable[[Array], Any],
        test: tuple[Any, Any],
        particles: Particles,
        log_weights: Float[Array, " particle"],
    ) -> None:
        """Compile for particles as they are given."""
        likelihood, outputs = model.likelihood, plan.outputs
        self._y = test[1]

        def score(particles: Array, log_weights: Array, examples: Any) -> Any:
            x, y = examples
            if likelihood is not None and outputs is not None:
                return likelihood.score(outputs(particles, x), log_weights, y)
            each = jax.lax.map(
                lambda particle: model.log_likelihood(unravel(particle), x, y),
                particles,
                batch_size=min(plan.particle_chunk, len(particles)),
            )
            return mix(each, log_weights)

        self._score = Sliced(score, test, particles, log_weights)
        self.compile_s = self._score.compile_s
        self.headline = "test_log_likelihood" if likelihood is None else likelihood.headline
        self.traced = tuple(dict.fromkeys(("test_log_likelihood", self.headline)))
        self._metrics = None if likelihood is None else likelihood.metrics

    def __call__(self, particles: Particles, log_weights: Float[Array, " particle"]) -> dict[str, Any]:
        """Every test metric."""
        score = self._score(particles, log_weights)
        if self._metrics is None:
            return {"test_log_likelihood": float(np.mean(score))}
        return self._metrics(score, self._y)


def predict(
    model: Model,
    outputs: ParticleOutputs,
    x: Any,
    particles: Particles,
    log_weights: Float[Array, " particle"],
) -> Any:
    """The posterior predictive of a model with a likelihood that has one."""
    likelihood = model.likelihood
    assert likelihood is not None and likelihood.predictive is not None
    mixture = likelihood.predictive
    program = Sliced(lambda p, w, x: mixture(outputs(p, x), w), x, particles, log_weights)
    return program(particles, log_weights)


def foreign_scores(
    model: Model,
    outputs: ParticleOutputs,
    known: Any,
    foreign: Any,
    particles: Particles,
    log_weights: Float[Array, " particle"],
) -> dict[str, float]:
    """How well the predictive tells foreign inputs from known ones: AUROC of each measure of uncertainty."""
    assert model.likelihood is not None and model.likelihood.uncertainty is not None
    uncertainty = model.likelihood.uncertainty

    def of(x: Any) -> Any:
        program = Sliced(lambda p, w, x: uncertainty(outputs(p, x), w), x, particles, log_weights)
        return program(particles, log_weights)._asdict()

    ours, theirs = of(known), of(foreign)
    return {f"ood_auroc_{name}": auroc(ours[name], theirs[name]) for name in ours}


def particle_log_likelihood(model: Model, particles: Particles, x: Any, y: Any) -> np.ndarray:
    """Log-likelihood of every example under every particle."""
    unravel = flattened(model.joint_prior).unravel

    def of_all(particles: Array, log_weights: Array, examples: Any) -> Array:
        del log_weights
        each = jax.lax.map(lambda particle: model.log_likelihood(unravel(particle), *examples), particles)
        return each.T

    program = Sliced(of_all, (x, y), particles, jnp.zeros(len(particles)))
    return program(particles, jnp.zeros(len(particles))).T
