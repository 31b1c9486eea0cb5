"""The six data-annealing schemes under one roof: which data the next iteration uses.

A scheme is where it starts (`first`), a pure function that chooses the next window (`advance`) and
the arrays that this function reads (`table`). The function is a static argument of the compiled
step and the arrays are traced, so all fixed schemes share one compiled program.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array

from smcda.smc.batches import Window
from smcda.smc.schedules.fixed import FIXED_SCHEMES, Annealing, Schedule, follow, windows
from smcda.smc.schedules.smooth import anneal, first_window, pace

Advance = Callable[[Any, Array, Window, Array, Array], Window]
"""``(table, iteration, window, weights, log_likelihoods) -> next window``."""


class Scheme(NamedTuple):
    """A data-annealing scheme, ready for one run."""

    first: Window
    advance: Advance
    table: Any


def _fixed(schedule: Callable[[Annealing], Schedule]) -> Callable[[Annealing], Scheme]:
    def build(sizes: Annealing) -> Scheme:
        table = windows(schedule(sizes), sizes.n_data)
        return Scheme(Window(*(column[0] for column in table)), follow, table)

    return build


def smooth_data_annealing(sizes: Annealing) -> Scheme:
    """Data come in at the pace of the target's entropy."""
    return Scheme(first_window(sizes), anneal, pace(sizes))


SCHEMES: dict[str, Callable[[Annealing], Scheme]] = {
    **{name: _fixed(schedule) for name, schedule in FIXED_SCHEMES.items()},
    "smooth_data_annealing": smooth_data_annealing,
}
