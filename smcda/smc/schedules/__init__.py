"""The data-annealing schemes (elsewhere: data tempering, IBIS): which data the next iteration uses.

A new fixed scheme is a function and a line in the table of ``fixed.py``; the command line, the workflow and
the figures know it from `SCHEDULES`.
"""

from collections.abc import Callable
from functools import partial

from smcda._plugins import look_up
from smcda.config import ADAPTIVE, SamplerConfig
from smcda.smc.schedules.adaptive import adaptive
from smcda.smc.schedules.base import BatchPlan, NextWindow, Schedule, ScheduleArgs
from smcda.smc.schedules.fixed import FIXED, fixed
from smcda.smc.schedules.smooth import smooth_data_annealing

__all__ = ["SCHEDULES", "BatchPlan", "NextWindow", "Schedule", "ScheduleArgs", "make_schedule"]

SCHEDULES: dict[str, Callable[[ScheduleArgs], Schedule]] = {
    **{name: partial(fixed, plan) for name, plan in FIXED.items()},
    "smooth_data_annealing": smooth_data_annealing,
    ADAPTIVE: adaptive,
}


def make_schedule(config: SamplerConfig, n_data: int) -> Schedule:
    """The schedule that a config names or holds, for so many training examples."""
    known = vars(config.for_data(n_data)) | {"n_data": n_data}
    args = ScheduleArgs(**{name: known[name] for name in ScheduleArgs._fields})
    made = look_up(SCHEDULES, config.scheme)(args)
    # A user's own scheme may be as simple as a plan.
    return fixed(lambda _: made, args) if isinstance(made, BatchPlan) else made
