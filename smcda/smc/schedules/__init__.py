"""The data-annealing schemes (elsewhere: data tempering, IBIS): which data the next iteration uses.

A new fixed scheme is a function and a line in the table of ``fixed.py``; the command line, the workflow and
the figures know it from `SCHEDULES`.
"""

from collections.abc import Callable

from smcda.config import SamplerConfig
from smcda.smc.schedules.base import BatchPlan, NextWindow, Schedule, ScheduleArgs
from smcda.smc.schedules.fixed import FIXED, fixed
from smcda.smc.schedules.smooth import smooth_data_annealing

__all__ = ["SCHEDULES", "BatchPlan", "NextWindow", "Schedule", "ScheduleArgs", "make_schedule"]

SCHEDULES: dict[str, Callable[[ScheduleArgs], Schedule]] = {
    **{name: fixed(plan) for name, plan in FIXED.items()},
    "smooth_data_annealing": smooth_data_annealing,
}


def make_schedule(config: SamplerConfig, n_data: int) -> Schedule:
    """The schedule that a config names, for so many training examples."""
    config.check_data(n_data)
    known = config.resolved() | {"n_data": n_data}
    args = ScheduleArgs(**{name: known[name] for name in ScheduleArgs._fields})
    return SCHEDULES[config.scheme](args)
