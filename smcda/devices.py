"""One run on several devices: each holds a share of the particles.

Particles know nothing of one another except through their weights, so moves, gradients and priors are
computed where the particles lie, and only numbers of one a particle (log-likelihoods, weights, ancestors)
are known everywhere. Resampling is the only exchange of particles. The data are on every device. Draws do
not depend on how arrays are laid out, so a run on four devices is the run on one, to rounding.

The devices may belong to several processes (`smcda.hosts`). Each process then runs the same program, gives
whole arrays (`put`) of which its devices keep their share, and gets whole arrays back (`to_host`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather, sync_global_devices
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
    """Place particles on so many devices of each process; None for a single one, which needs no placing.

    Without a number, as many of the visible devices as share the particles out evenly.
    """
    if available is None:
        processes = [jax.local_devices(process_index=process) for process in range(jax.process_count())]
    else:
        processes = [list(available)]
    fewest = min(len(there) for there in processes)
    if asked is None:
        evenly = [n for n in range(1, fewest + 1) if n_particles % (n * len(processes)) == 0]
        asked = max(evenly, default=1)
    if asked > fewest:
        raise BadInput(f"devices is {asked}, but {fewest} can be seen: choose at most {fewest}")
    chosen = [device for there in processes for device in there[:asked]]
    total = len(chosen)
    if n_particles % total:
        near = n_particles // total * total or total
        raise BadInput(
            f"particles is {n_particles}, which {total} devices can't share evenly: choose a multiple of "
            f"{total} (such as {near} or {near + total}), or other --devices"
        )
    return None if total == 1 else Placement(Mesh(np.asarray(chosen), (AXIS,)))


def put(arrays: Any, shardings: Any) -> Any:
    """Lay out a tree of whole arrays, by one sharding for all of them or by a tree of as many."""
    if isinstance(shardings, NamedSharding):
        shardings = jax.tree.map(lambda _: shardings, arrays)

    # Unlike `device_put`, this does not send all of it around to compare what the processes gave.
    def lay_out(array: Any, sharding: NamedSharding) -> Any:
        return jax.make_array_from_callback(array.shape, sharding, lambda share: array[share])

    return jax.tree.map(lay_out, arrays, shardings)


def to_host(arrays: Any) -> Any:
    """Whole arrays of the host. Where parts lie with other processes, all of them must call this."""

    def whole(array: Any) -> np.ndarray:
        if isinstance(array, jax.Array) and not (array.is_fully_addressable or array.is_fully_replicated):
            return process_allgather(array, tiled=True)
        return np.asarray(array)

    return jax.tree.map(whole, arrays)


def meet() -> None:
    """Wait until all processes are here, so that no clock that starts now counts another's delay."""
    if jax.process_count() > 1:
        sync_global_devices("meet")
