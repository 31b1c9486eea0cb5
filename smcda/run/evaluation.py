"""The posterior predictive on one fixed set of examples, compiled once for all evaluations of a run."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from smcda.models.base import ParticleOutputs
from smcda.models.likelihoods import Likelihood
from smcda.smc.likelihood import Particles


class Predictor:
    """Predicts one fixed set of examples from any weighted particles."""

    def __init__(
        self,
        outputs: ParticleOutputs,
        likelihood: Likelihood,
        x: Shaped[np.ndarray, "example ..."],
        particles: Particles,
        log_weights: Float[Array, " particle"],
        slice_length: int = 200,
    ) -> None:
        """Put the examples on the device, in slices whose last one is filled up, and compile.

        Of `particles` and `log_weights` only shape and placement matter, not their values.
        """
        n_slices = -(-len(x) // slice_length)
        rows = np.minimum(np.arange(n_slices * slice_length), len(x) - 1)
        self.likelihood = likelihood
        self._n_examples = len(x)
        self._slices = jnp.asarray(x[rows].reshape(n_slices, slice_length, *x.shape[1:]))
        started = time.perf_counter()

        def predict(particles: Array, log_weights: Array, slices: Array) -> Any:
            return jax.lax.map(lambda x: likelihood.mixture(outputs(particles, x), log_weights), slices)

        self._predict = jax.jit(predict).lower(particles, log_weights, self._slices).compile()
        self.compile_s = time.perf_counter() - started

    def __call__(self, particles: Particles, log_weights: Float[Array, " particle"]) -> Any:
        """Mix the particles' predictions under their weights; arrays of the host, in double precision."""

        def joined(part: np.ndarray) -> np.ndarray:
            return part.astype(np.float64).reshape(-1, *part.shape[2:])[: self._n_examples]

        return jax.tree.map(joined, jax.device_get(self._predict(particles, log_weights, self._slices)))
