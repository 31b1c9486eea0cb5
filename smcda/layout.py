"""The one place that decides how the work is cut for the machine.

Results do not depend on these numbers beyond rounding; only time and memory do.
"""

import math
from typing import NamedTuple

import jax

from smcda.settings import Settings


class Layout(NamedTuple):
    """How many examples and how many particles are worked on at once."""

    micro_batch: int
    particle_chunk: int


def choose_layout(settings: Settings, n_parameters: int) -> Layout:
    """Cut small for a CPU, whole for a GPU; the settings can overrule it.

    The micro-batch divides both batch sizes where it can, so that no slice is half empty.
    """
    on_cpu = jax.default_backend() == "cpu"
    common = math.gcd(settings.batch_size, settings.first_batch)
    most = 50 if on_cpu else 500
    micro_batch = max(divisor for divisor in range(1, min(common, most) + 1) if common % divisor == 0)
    if micro_batch < min(most, settings.batch_size) / 4:
        micro_batch = min(most, settings.batch_size)
    # About ten LeNet-5s at once, the most that was timed; small models go whole.
    at_once = max(1, 620_000 // n_parameters)
    particle_chunk = min(settings.particles, at_once) if on_cpu else settings.particles
    return Layout(settings.micro_batch or micro_batch, settings.particle_chunk or particle_chunk)
