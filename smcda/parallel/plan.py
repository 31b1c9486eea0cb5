"""The one place that decides how the work is done on the machine: whose gradients, and how it is cut.

Results do not depend on these choices beyond rounding; only time and memory do.
"""

import math
import sys
from typing import NamedTuple

import jax
from jaxtyping import Array, UInt8

from smcda.errors import BadInput
from smcda.models import native
from smcda.parallel.sharding import Placement, choose_devices
from smcda.settings import Settings

GRADIENTS = ("auto", "native", "xla")


class Layout(NamedTuple):
    """How many examples and how many particles are worked on at once, and on which devices."""

    micro_batch: int
    particle_chunk: int
    placement: Placement | None = None

    @property
    def n_devices(self) -> int:
        """How many devices share the particles."""
        return 1 if self.placement is None else self.placement.mesh.size


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
    placement = choose_devices(settings.devices, settings.particles)
    whole = Layout(settings.micro_batch or micro_batch, settings.particles, placement)
    held = settings.particles // whole.n_devices
    particle_chunk = min(held, at_once) if on_cpu else held
    return whole._replace(particle_chunk=settings.particle_chunk or particle_chunk)


def choose_gradients(
    asked: str, network: str, reference: UInt8[Array, "reference 28 28"] | None = None
) -> native.Native | None:
    """Native code on a CPU where there is some for the network, else None: XLA's own gradients.

    `reference` images come with batch normalisation (`native.load`).

    ``auto`` goes on without a compiler, and says so; ``native`` does not.
    """
    why_not = None
    if jax.default_backend() != "cpu":
        why_not = "run on a CPU only"
    elif network not in native.NETWORKS:
        why_not = f"are there for {', '.join(native.NETWORKS)} only"
    if asked == "native" and why_not:
        raise BadInput(f"gradients native {why_not}: choose --gradients xla")
    if asked == "xla" or why_not:
        return None
    try:
        return native.load(network, reference)
    except native.NotBuilt as error:
        if asked == "native":
            raise
        print(f"smcda: {error}; using XLA's gradients, several times slower", file=sys.stderr)
        return None
