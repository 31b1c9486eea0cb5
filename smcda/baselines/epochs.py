"""Epochs: passes over the training data in minibatches, through the sampler's own gradients.

All particles see the same minibatch at the same time, which is what a `BatchLikelihood` evaluates; each epoch
has an order of its own. What a step does with the gradient is the method's business.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from smcda.config import SamplerConfig
from smcda.errors import Diverged
from smcda.models.base import Model
from smcda.models.flat import flattened, parameter_shapes, ravel
from smcda.models.priors import joint
from smcda.models.starts import lecun
from smcda.parallel.plan import make_plan
from smcda.runs.checks import check_model
from smcda.runs.compiled import compile_once
from smcda.smc.batches import ShuffledData, Window, count
from smcda.smc.likelihood import NEW, Particles


class Mean(NamedTuple):
    """Log-likelihood per example of a minibatch, and its gradient, of each particle."""

    value: Float[Array, " particle"]
    gradient: Float[Array, "particle parameter"]


Step = Callable[[PRNGKeyArray, Any, Callable[[Particles], Mean], Any], tuple[Any, Array]]
"""``(key, state, mean over the minibatch, params) -> (state, mean log-likelihood of each particle)``."""


class Epochs:
    """Epochs over one training set; `evaluations` are particle x example gradients, `seconds` their time."""

    def __init__(
        self, model: Model, data: tuple[Any, Any], n_particles: int, batch_size: int, gradients: str
    ) -> None:
        """Plan the work; `step` must be set before the first epoch, which compiles the program."""
        x, y = data
        self.n_data, self.n_particles = count(x), n_particles
        self.batch_size = batch_size = min(batch_size, self.n_data)
        self.n_batches = -(-self.n_data // batch_size)
        self.flat = flattened(model.joint_prior)
        sizes = SamplerConfig(scheme="constant", particles=n_particles, batch_size=batch_size, devices=1)
        self.plan = make_plan(model, self.flat, sizes.for_data(self.n_data), x, y, gradients)
        check_model(model, self.flat, x, y, self.plan.micro_batch)
        self._data = jax.tree.map(jnp.asarray, (x, y))
        self.step: Step | None = None
        self._program: Any = None
        self.programs: list[str] = []
        self.compile_s = self.seconds = 0.0
        self.evaluations = 0

    def __call__(self, key: PRNGKeyArray, state: Any, params: Any) -> tuple[Any, float]:
        """One epoch; also the mean log-likelihood per example, over particles and minibatches."""
        if self._program is None:
            started = time.perf_counter()
            with jax.default_matmul_precision(self.plan.precision):
                lowered = jax.jit(self._epoch).lower(key, state, params, self._data)
            self._program, digest = compile_once(lowered)
            self.programs.append(digest)
            self.compile_s += time.perf_counter() - started
        started = time.perf_counter()
        state, value = jax.block_until_ready(self._program(key, state, params, self._data))
        self.seconds += time.perf_counter() - started
        self.evaluations += self.n_particles * self.n_data
        return state, float(value)

    def _epoch(self, key: PRNGKeyArray, state: Any, params: Any, data: Any) -> tuple[Any, Array]:
        n, size = self.n_data, self.batch_size
        order = jax.random.permutation(jax.random.fold_in(key, 0), n)
        # Followed by its beginning: slices of fixed length read, and mask, what lies behind the last example.
        rows = order[np.arange(n + size + self.plan.micro_batch) % n]
        x, y = jax.tree.map(lambda leaf: leaf[rows], data)
        shuffled = ShuffledData(x, y, jnp.asarray(n, jnp.int32))

        def batch(i: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            state, total = carry
            first, end = i * size, jnp.minimum((i + 1) * size, n)
            window = Window(first, first, end, jnp.float32(1))

            def mean(particles: Particles) -> Mean:
                sums = self.plan.likelihood(particles, shuffled, window)
                return Mean(sums.value[NEW] / window.size, sums.gradient[NEW] / window.size)

            assert self.step is not None
            state, value = self.step(jax.random.fold_in(key, i + 1), state, mean, params)
            return state, total + jnp.mean(value) * window.size / n

        return jax.lax.fori_loop(jnp.int32(0), jnp.int32(self.n_batches), batch, (state, jnp.float32(0)))


def first_particles(model: Model, n_particles: int, key: PRNGKeyArray, start: str | None = None) -> Particles:
    """Draw from a network's usual initialisation, or from the prior where the model has no such layers."""
    leaves = jax.tree_util.tree_leaves_with_path(parameter_shapes(joint(model.prior)))
    has_layers = any(jax.tree_util.keystr(path[-1:], simple=True) == "kernel" for path, _ in leaves)
    from_prior = start == "prior" or (start is None and not has_layers)
    sample = model.joint_prior.sample if from_prior else lecun(model).sample
    return jax.jit(jax.vmap(lambda key: ravel(sample(key))))(jax.random.split(key, n_particles))


def check_finite(particles: Particles, learning_rate: float) -> None:
    """Refuse particles that left the numbers."""
    bad = int(np.sum(~np.isfinite(np.asarray(particles)).all(axis=1)))
    if bad:
        raise Diverged(
            f"{bad} of {len(particles)} particles are not finite with learning_rate {learning_rate:g}: lower "
            f"it (try {learning_rate / 3:.2g})"
        )


def split(x: Any, y: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Training examples to learn from and to choose by, drawn at random: two pairs of inputs and outputs."""
    order = np.random.default_rng(seed).permutation(count(x))
    n_validation = max(1, round(share * len(order)))
    parts = np.split(order, [len(order) - n_validation])
    return tuple(jax.tree.map(lambda leaf, rows=rows: leaf[np.sort(rows)], (x, y)) for rows in parts)
