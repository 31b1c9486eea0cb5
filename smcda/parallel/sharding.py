"""One run on several devices: each holds a share of the particles.

Particles know nothing of one another except through their weights, so moves, gradients and priors are
computed where the particles lie, and only numbers of one a particle (log-likelihoods, weights, ancestors)
are known everywhere. Resampling is the only exchange of particles. The data are on every device. Draws do
not depend on how arrays are laid out, so a run on four devices is the run on one, to rounding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from smcda.errors import BadInput

AXIS = "particle"


class Placement(NamedTuple):
    """Where arrays live: those with a particle axis of their own share, all others everywhere."""

    mesh: Mesh

    @property
    def everywhere(self) -> NamedSharding:
        """A copy on every device."""
        return NamedSharding(self.mesh, PartitionSpec())

    def along(self, axis: int) -> NamedSharding:
        """Cut along one axis of an array."""
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, AXIS))


def choose_devices(
    asked: int | None, n_particles: int, available: Sequence[Any] | None = None
) -> Placement | None:
    """Place particles on so many devices; None for a single one, which needs no placing.

    Without a number, as many of the visible devices as share the particles out evenly.
    """
    visible = list(jax.devices() if available is None else available)
    if asked is None:
        asked = max(n for n in range(1, len(visible) + 1) if n_particles % n == 0)
    if asked > len(visible):
        raise BadInput(f"devices is {asked}, but {len(visible)} can be seen: choose at most {len(visible)}")
    if n_particles % asked:
        near = n_particles // asked * asked or asked
        raise BadInput(
            f"particles is {n_particles}, which {asked} devices can't share evenly: choose a multiple of "
            f"{asked} (such as {near} or {near + asked}), or other --devices"
        )
    return None if asked == 1 else Placement(Mesh(np.asarray(visible[:asked]), (AXIS,)))


def put(arrays: Any, shardings: Any) -> Any:
    """Lay out a tree of whole arrays, by one sharding for all of them or by a tree of as many."""
    return jax.device_put(arrays, shardings)


def to_host(arrays: Any) -> Any:
    """Whole arrays of the host."""
    return jax.tree.map(np.asarray, arrays)
