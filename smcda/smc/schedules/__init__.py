"""The data-annealing schemes (elsewhere: data tempering, IBIS): which data the next iteration uses.

A new fixed scheme is a function and a line in the table of ``fixed.py``; the command line, the workflow and
the figures know it from `SCHEDULES`.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from smcda._plugins import call, look_up, name_of
from smcda.config import ADAPTIVE, SamplerConfig
from smcda.errors import BadInput
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
    scheme = look_up(SCHEDULES, config.scheme)
    if is_built_in(config):
        return scheme(args)
    name = name_of(config.scheme)
    made = call(f"scheme {name}", scheme, args)
    if isinstance(made, BatchPlan):  # a user's own may be as simple as that
        plan = _checked(made, args, name)
        return fixed(lambda _: plan, args)
    if not isinstance(made, Schedule):
        raise BadInput(f"scheme {name} gives {type(made).__name__}, but must give a BatchPlan or a Schedule")
    return made


def is_built_in(config: SamplerConfig) -> bool:
    """Whether the scheme is one of the package's."""
    return isinstance(config.scheme, str) and config.scheme in SCHEDULES


def _checked(plan: BatchPlan, args: ScheduleArgs, name: str) -> BatchPlan:
    """A user's plan as arrays; refuses one that does not fit the run."""
    size, fresh = np.asarray(plan.size), np.asarray(plan.fresh)
    if size.shape != (args.iterations,) or fresh.shape != size.shape:
        raise BadInput(
            f"scheme {name} plans sizes {size.shape} and fresh {fresh.shape}, but must plan one of each for "
            f"each of {args.iterations} iterations"
        )
    if not np.issubdtype(size.dtype, np.integer) or size.min() < 1 or size.max() > args.n_data:
        raise BadInput(
            f"scheme {name} plans {size.min()} to {size.max()} examples ({size.dtype}), but must plan whole "
            f"numbers of 1 to {args.n_data}"
        )
    return BatchPlan(size, fresh.astype(bool))
