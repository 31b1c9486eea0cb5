"""Fixed data-annealing schemes: how much data iteration k uses.

Each scheme is a function of the iteration alone, computed once per run and returned as arrays,
so that a schedule can be plotted, tested and logged before a single particle moves. K is the number
of iterations, N of examples, C the first batch, kappa what is appended at a time, and ``refine_from``
(0.9) the share of K after which the schemes that refine use everything.
"""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from smcda.smc.batches import Window
from smcda.smc.schedules.base import BatchPlan, Schedule, ScheduleArgs


def constant(args: ScheduleArgs) -> BatchPlan:
    """``M_k = C``, fresh every iteration."""
    k = np.arange(args.iterations)
    return BatchPlan(np.full_like(k, args.initial_batch), np.ones_like(k, bool))


def full_batch(args: ScheduleArgs) -> BatchPlan:
    """``M_k = N``."""
    k = np.arange(args.iterations)
    return BatchPlan(np.full_like(k, args.n_data), np.zeros_like(k, bool))


def constant_to_refine(args: ScheduleArgs) -> BatchPlan:
    """``M_k = C``, fresh, while k < 0.9 K; then ``M_k = N``."""
    return _refine(args, args.initial_batch, fresh=True)


def linear(args: ScheduleArgs) -> BatchPlan:
    """``M_k = min(kappa k + C, N)`` while k < 0.9 K; then ``M_k = N``."""
    k = np.arange(args.iterations)
    return _refine(args, np.minimum(args.batch_size * k + args.initial_batch, args.n_data))


def automated(args: ScheduleArgs) -> BatchPlan:
    """``M_k = C + floor((N - C) / (0.9 K)) k`` in whole minibatches while k < 0.9 K; then ``M_k = N``.

    Halves round up. Because data come in minibatches of kappa after the first C, what is rounded is
    the number of minibatches appended to C.
    """
    k = np.arange(args.iterations)
    slope = math.floor((args.n_data - args.initial_batch) / (args.refine_from * args.iterations))
    appended = (2 * slope * k + args.batch_size) // (2 * args.batch_size)
    return _refine(args, np.minimum(args.initial_batch + args.batch_size * appended, args.n_data))


def _refine(args: ScheduleArgs, size: Any, fresh: bool = False) -> BatchPlan:
    """Use `size` examples while k < 0.9 K, then all."""
    # The tolerance keeps e.g. 0.7 * 10 = 7.000000000000001 from counting k = 7 as early.
    early = np.arange(args.iterations) < args.refine_from * args.iterations - 1e-9
    return BatchPlan(np.where(early, size, args.n_data), early & fresh)


FIXED: dict[str, Callable[[ScheduleArgs], BatchPlan]] = {
    "constant": constant,
    "full_batch": full_batch,
    "constant_to_refine": constant_to_refine,
    "linear": linear,
    "automated": automated,
}


def windows(plan: BatchPlan, n_data: int) -> Window:
    """Turn a plan into ranges of examples, one per iteration.

    A fresh range begins where the last one ended, round and round the data. An appended range is
    split where the data that were already in use end, so that only the rest needs evaluating. Arrays of
    the host: on the device, each column would compile a small program at every start.
    """
    ranges = []
    start, split, stop, was_fresh = 0, 0, 0, True
    for k, (size, fresh) in enumerate(zip(plan.size.tolist(), plan.fresh.tolist(), strict=True)):
        if fresh:
            start = split = (k * size) % n_data
        elif was_fresh:
            start = split = 0
        elif size > stop:
            split = stop
        stop, was_fresh = start + size, fresh
        ranges.append((start, split, stop))
    starts, splits, stops = (np.array(column, np.int32) for column in zip(*ranges, strict=True))
    return Window(starts, splits, stops, np.ones(len(ranges), np.float32))  # pyright: ignore[reportArgumentType]


def fixed(planned: Callable[[ScheduleArgs], BatchPlan], args: ScheduleArgs) -> Schedule:
    """Make a schedule of a plan that depends on nothing but the iteration."""
    plan = planned(args)
    table = windows(plan, args.n_data)
    first = Window(*(jnp.asarray(column[0]) for column in table))
    return Schedule(first, look_up, table, plan, is_fixed=True)


def look_up(
    table: Window,
    iteration: Int[Array, ""],
    window: Window,
    weights: Float[Array, " particle"],
    log_likelihoods: Float[Array, "part particle"],
) -> Window:
    """The iteration's window; a fixed scheme does not depend on the particles."""
    del window, weights, log_likelihoods
    return Window(*(column[iteration] for column in table))
