"""One run on several devices: each holds a share of the particles.

Particles interact only through their weights, so moves, gradients and priors are computed where the
particles lie, and only per-particle scalars (log-likelihoods, weights, ancestors) are replicated. Resampling
is the only exchange of particles. The data are on every device. Draws do not depend on how arrays are laid
out, so a run on four devices is the run on one, to rounding.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from smcda.errors import BadInput
from smcda.models.base import ParticleOutputs
from smcda.smc.likelihood import BatchLikelihood, LikelihoodSums
from smcda.smc.sampler import SMCState

AXIS = "particle"


def sharded(mesh: Mesh, axis: int) -> NamedSharding:
    """One axis of an array, that of the particles, cut over the devices."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, AXIS))


def choose_devices(
    requested: int | None, n_particles: int, available: Sequence[Any] | None = None
) -> Mesh | None:
    """A mesh of so many devices to share the particles; None for a single one, which needs no placing.

    Without a number, as many of the visible devices as divide the particles evenly.
    """
    visible = list(jax.devices() if available is None else available)
    if requested is None:
        requested = max(n for n in range(1, len(visible) + 1) if n_particles % n == 0)
    if requested > len(visible):
        raise BadInput(
            f"devices is {requested}, but {len(visible)} can be seen: choose at most {len(visible)}"
        )
    if n_particles % requested:
        near = n_particles // requested * requested or requested
        raise BadInput(
            f"particles is {n_particles}, which {requested} devices can't share evenly: choose a multiple of "
            f"{requested} (such as {near} or {near + requested}), or other devices"
        )
    return None if requested == 1 else Mesh(np.asarray(visible[:requested]), (AXIS,))


def shard_likelihood(likelihood: BatchLikelihood, mesh: Mesh | None) -> BatchLikelihood:
    """Let each device evaluate the particles that it holds."""
    if mesh is None:
        return likelihood
    sums: Any = sharded(mesh, 1).spec
    return jax.shard_map(
        likelihood,
        mesh=mesh,
        in_specs=(sharded(mesh, 0).spec, PartitionSpec(), PartitionSpec()),
        out_specs=LikelihoodSums(sums, sums),
        check_vma=False,
    )


def shard_outputs(outputs: ParticleOutputs, mesh: Mesh | None) -> ParticleOutputs:
    """Let each device predict with the particles that it holds."""
    if mesh is None:
        return outputs
    particles = sharded(mesh, 0).spec
    return jax.shard_map(
        outputs, mesh=mesh, in_specs=(particles, PartitionSpec()), out_specs=particles, check_vma=False
    )


def replicator(mesh: Mesh | None) -> Callable[[Any], Any]:
    """A function that makes arrays known to all devices; the identity for a single device."""
    if mesh is None:
        return lambda values: values
    return partial(jax.lax.with_sharding_constraint, shardings=NamedSharding(mesh, PartitionSpec()))


def state_sharding(mesh: Mesh | None) -> tuple[Any, Any]:
    """Where each part of a state lives, and where everything else does; None for a single device.

    Per-particle scalars are replicated, like everything else.
    """
    if mesh is None:
        return None, None
    replicated: Any = NamedSharding(mesh, PartitionSpec())
    particles: Any = sharded(mesh, 0)
    gradients: Any = sharded(mesh, 1)
    state = SMCState(*[replicated] * len(SMCState._fields))
    return state._replace(particles=particles, likelihood=LikelihoodSums(replicated, gradients)), replicated
