"""Fixed data-annealing schemes: how much data iteration k uses.

Each scheme is a function of the iteration alone, computed once per run and returned as arrays,
so that a schedule can be plotted, tested and logged before a single particle moves. K is the number
of iterations, N of examples, C the first batch, kappa what is appended at a time, and ``refine_from``
(0.9) the share of K after which the schemes that refine use everything.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from smcda.smc.batches import Window


class Annealing(NamedTuple):
    """What a scheme is told: the sizes in the formulas, and SDA's two constants."""

    iterations: int
    n_data: int
    batch_size: int
    initial_batch: int
    refine_from: float = 0.9
    delta_entropy: float = 1.0
    beta_restart: float = 0.1


class Schedule(NamedTuple):
    """M_k for every iteration, and whether these are fresh examples or the growing first M_k."""

    size: Int[np.ndarray, " iteration"]
    fresh: Bool[np.ndarray, " iteration"]


def constant(sizes: Annealing) -> Schedule:
    """``M_k = C``, fresh every iteration."""
    k = np.arange(sizes.iterations)
    return Schedule(np.full_like(k, sizes.initial_batch), np.ones_like(k, bool))


def full_batch(sizes: Annealing) -> Schedule:
    """``M_k = N``."""
    k = np.arange(sizes.iterations)
    return Schedule(np.full_like(k, sizes.n_data), np.zeros_like(k, bool))


def constant_to_refine(sizes: Annealing) -> Schedule:
    """``M_k = C``, fresh, while k < 0.9 K; then ``M_k = N``."""
    early = _before_refinement(sizes)
    return Schedule(np.where(early, sizes.initial_batch, sizes.n_data), early)


def linear(sizes: Annealing) -> Schedule:
    """``M_k = min(kappa k + C, N)`` while k < 0.9 K; then ``M_k = N``."""
    k = np.arange(sizes.iterations)
    ramp = np.minimum(sizes.batch_size * k + sizes.initial_batch, sizes.n_data)
    return _append(np.where(_before_refinement(sizes), ramp, sizes.n_data))


def automated(sizes: Annealing) -> Schedule:
    """``M_k = C + floor((N - C) / (0.9 K)) k`` in whole minibatches while k < 0.9 K; then ``M_k = N``.

    Halves round up. Because data come in minibatches of kappa after the first C, what is rounded is
    the number of minibatches appended to C.
    """
    k = np.arange(sizes.iterations)
    slope = math.floor((sizes.n_data - sizes.initial_batch) / (sizes.refine_from * sizes.iterations))
    appended = (2 * slope * k + sizes.batch_size) // (2 * sizes.batch_size)
    ramp = np.minimum(sizes.initial_batch + sizes.batch_size * appended, sizes.n_data)
    return _append(np.where(_before_refinement(sizes), ramp, sizes.n_data))


FIXED_SCHEMES: dict[str, Callable[[Annealing], Schedule]] = {
    "constant": constant,
    "full_batch": full_batch,
    "constant_to_refine": constant_to_refine,
    "linear": linear,
    "automated": automated,
}


def most_of_smooth(sizes: Annealing) -> Schedule:
    """The fastest ramp that smooth data annealing can choose: a minibatch an iteration, no refinement."""
    return linear(sizes._replace(refine_from=1.0))


def images_evaluated(schedule: Schedule, sweeps: int) -> int:
    """Images whose gradient each particle evaluates in a whole run of S `sweeps` a move.

    Every move costs ``S M_k``, and what is not known of its start: all of it for fresh images, what was
    appended otherwise.
    """
    images, known = 0, 0
    for size, fresh in zip(schedule.size.tolist(), schedule.fresh.tolist(), strict=True):
        images += sweeps * size + size - known
        known = 0 if fresh else size
    return images


def windows(schedule: Schedule, n_data: int) -> Window:
    """Turn sizes into ranges of examples, one an iteration.

    A fresh range begins where the last one ended, round and round the data. An appended range is
    split where the data that were already in use end, so that only the rest needs evaluating.
    """
    ranges = []
    start, split, stop, was_fresh = 0, 0, 0, True
    for k, (size, fresh) in enumerate(zip(schedule.size.tolist(), schedule.fresh.tolist(), strict=True)):
        if fresh:
            start = split = (k * size) % n_data
        elif was_fresh:
            start = split = 0
        elif size > stop:
            split = stop
        stop, was_fresh = start + size, fresh
        ranges.append((start, split, stop))
    starts, splits, stops = (np.array(column, np.int32) for column in zip(*ranges, strict=True))
    return Window(*map(jnp.asarray, (starts, splits, stops, np.ones(len(ranges), np.float32))))


def follow(
    table: Window,
    iteration: Int[Array, ""],
    window: Window,
    weights: Float[Array, " particle"],
    log_likelihoods: Float[Array, "part particle"],
) -> Window:
    """Look the iteration's window up; a fixed scheme asks nothing of the particles."""
    del window, weights, log_likelihoods
    return Window(*(column[iteration] for column in table))


def _before_refinement(sizes: Annealing) -> Bool[np.ndarray, " iteration"]:
    # The tolerance keeps e.g. 0.7 * 10 = 7.000000000000001 from counting k = 7 as early.
    return np.arange(sizes.iterations) < sizes.refine_from * sizes.iterations - 1e-9


def _append(size: Int[np.ndarray, " iteration"]) -> Schedule:
    return Schedule(size, np.zeros_like(size, bool))
