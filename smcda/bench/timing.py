"""The pieces of work that are timed, and the clock they are timed with.

Times on a shared machine wander, so nothing is reported in seconds alone: what is compared runs interleaved
in one process, and the fastest of several turns counts for each, or the median ratio of neighbouring turns.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smcda.config import SamplerConfig
from smcda.data.dataset import Dataset, checked, load
from smcda.data.mnist import BUNDLED
from smcda.models.lenet import make_model
from smcda.runs.checkpoint import Checkpoints
from smcda.runs.loop import Run
from smcda.smc.batches import Window

Call = Callable[[], Any]


class Sizes(NamedTuple):
    """How much work each measure does: numbers of images and of particles.

    `regressions` has the examples and the particles of each logistic regression, `seeds` how often it is
    sampled.
    """

    full: int
    middle: int
    batch: int
    baseline_full: int
    particles: int
    many_particles: int
    iterations: int
    rounds: int
    regressions: tuple[tuple[int, int], ...]
    seeds: int


PUBLISHED = Sizes(60_000, 5_000, 500, 10_000, 10, 100, 200, 5, ((20_000, 1_000), (100_000, 256)), 3)
QUICK = Sizes(600, 300, 60, 120, 4, 6, 20, 1, ((4_000, 100),), 1)
"""Every measure in about a minute, to see that it works; its figures mean nothing."""


class Outcome(NamedTuple):
    """What a sampler found and what it cost.

    `gradients` counts those over all data: of one particle, or of a whole chain.
    """

    mean: np.ndarray
    log_evidence: float
    gradients: float
    seconds: float


def images(n: int, network: str = "lenet5") -> Dataset:
    """So many training images: those inside the package, over and over (time does not depend on them)."""
    data = load(BUNDLED / ("mnist.npz" if network == "lenet5" else "fashion_mnist.npz"))
    rows = np.arange(n) % len(data.train_x)
    train = {"train_x": data.train_x[rows], "train_y": data.train_y[rows]}
    assert data.test is not None
    test = {name: array[:100] for name, array in zip(("test_x", "test_y"), data.test, strict=True)}
    return checked(data.name, data.name, train | test)


def interleaved(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Seconds of the fastest turn of each call, after a first one that does not count."""
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(rounds + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            jax.block_until_ready(call())
            if turn or rounds == 0:
                best[name] = min(best[name], time.perf_counter() - started)
    return best


class Case:
    """Our side of a comparison: a run that can be advanced, and its gradient over any window."""

    def __init__(self, network: str, n_images: int, config: SamplerConfig, gradients: str = "auto") -> None:
        """Start the run, which compiles it."""
        data = images(n_images, network)
        self.model = make_model(network)
        self.run = Run(self.model, data.train_x, data.train_y, config, gradients=gradients)
        # A copy: the run gives its own particles away with every block.
        self.particles = jnp.array(self.run.state.particles)
        self._sums = jax.jit(self.run.kernel.likelihood)

    def gradient(self, n_images: int, n_particles: int | None = None) -> Call:
        """One gradient of all particles over the first images."""
        zero, stop = jnp.asarray(0, jnp.int32), jnp.asarray(n_images, jnp.int32)
        window = Window(zero, zero, stop, jnp.asarray(1.0, jnp.float32))
        arguments = (self.particles[:n_particles], self.run.data, window)
        compiled = self._sums.lower(*arguments).compile()
        return lambda: compiled(*arguments)

    def seconds_per_iteration(self, n_iterations: int = 1) -> float:
        """Advance the run and read its own clock."""
        before = self.run.runtime_s
        first = self.run.iteration
        self.run.advance(n_iterations)
        return (self.run.runtime_s - before) / (self.run.iteration - first)


def matrix_product(size: int) -> tuple[Call, float]:
    """The machine's own product of two square matrices, and its floating-point operations."""
    a = jnp.asarray(np.random.default_rng(0).normal(size=(size, size)), jnp.float32)
    product = jax.jit(jnp.dot).lower(a, a).compile()
    return lambda: product(a, a), 2.0 * size**3


def seconds_to_save(arrays: Any) -> float:
    """How long it takes to save arrays such as `Run.to_save()`, on the disk of temporary files.

    The second of two is timed: the first also imports Orbax, once per process.
    """
    with tempfile.TemporaryDirectory() as parent:
        trial = Checkpoints(Path(parent), {}, Path(parent))
        trial.save(0, arrays)
        started = time.perf_counter()
        trial.save(1, arrays)
        return time.perf_counter() - started
