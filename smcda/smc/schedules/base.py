"""What a schedule is: where it starts, and a pure function that chooses the next window of data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Int

from smcda.smc.batches import Window

NextWindow = Callable[[Any, Array, Window, Array, Array], Window]
"""``(params, iteration, window, weights, log_likelihoods) -> next window``; log-likelihoods are sums over the
old and the new part, one per particle."""


NextBeta = Callable[[Any, Window, Array, Array], Array]
"""``(params, window, log_weights, log-likelihoods of the new part) -> beta``."""


class ScheduleArgs(NamedTuple):
    """Arguments of a schedule: K, N, kappa and C of the formulas, and the schemes' own constants."""

    iterations: int
    n_data: int
    batch_size: int
    initial_batch: int
    refine_from: float = 0.9
    delta_entropy: float = 1.0
    beta_restart: float = 0.1
    ess_target: float = 0.5


class BatchPlan(NamedTuple):
    """M_k for every iteration, and whether these are fresh examples or the growing first M_k."""

    size: Int[np.ndarray, " iteration"]
    fresh: Bool[np.ndarray, " iteration"]


class Schedule(NamedTuple):
    """A data-annealing scheme, ready for one run.

    `next_window` is a static argument of the compiled step and `params` are the arrays that it reads, so
    that all fixed schemes share one compiled program. `plan` is what is known of M_k before the run starts:
    all of it where `is_fixed`, otherwise the most that the scheme can use.

    A scheme with `next_beta` keeps a target until the particles have settled, and chooses beta when the
    likelihoods of newly joined examples are known; it needs adjusted moves.
    """

    first: Window
    next_window: NextWindow
    params: Any
    plan: BatchPlan
    is_fixed: bool
    next_beta: NextBeta | None = None
