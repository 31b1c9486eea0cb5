"""Gradient evaluations of a run, counted before it starts: the cost that no machine changes.

Nothing known is evaluated again, so a move of S gradients costs per particle, at iteration k,

    fresh examples:     (S + 1) M_k                  both ends of the move
    appended examples:  S M_k + (M_k - M_{k-1})      the start is known for the old ones
"""

from smcda._plugins import look_up
from smcda.config import SamplerConfig
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import make_schedule


def gradient_evaluations(config: SamplerConfig, n_data: int) -> int:
    """Particle x example gradients of a whole run on `n_data` training examples.

    Exact for fixed schedules, the most that are possible for `smooth_data_annealing`, and for `adaptive`,
    which has no bound, what a large problem was seen to need.
    """
    plan = make_schedule(config, n_data).plan
    gradients = look_up(KERNELS, config.kernel).gradients(config.leapfrog_steps)
    evaluations, known = 0, 0
    for size, fresh in zip(plan.size.tolist(), plan.fresh.tolist(), strict=True):
        evaluations += gradients * size + size - known
        known = 0 if fresh else size
    return config.particles * evaluations
