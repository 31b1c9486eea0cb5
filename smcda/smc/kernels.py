r"""Moves without accept-reject: leapfrog from a fresh Gaussian momentum.

From momentum P ~ N(0, I), each of S steps of size h is

    P <- P + h/2 grad log pi(theta);   theta <- theta + h P;   P <- P + h/2 grad log pi(theta).

The map is reversible and keeps volume, so with the L-kernel that runs it backwards from -P the
Jacobians cancel and the weight needs only ``log N(-P_end) - log N(P_start)``. Langevin dynamics (LD)
is the case S = 1, Hamiltonian Monte Carlo (HMC) any S; both share one compiled program.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from smcda.smc.likelihood import LikelihoodSums, Particles


class Position(NamedTuple):
    """Particles and what is known about them at the current target."""

    particles: Particles
    sums: LikelihoodSums
    gradient: Float[Array, "particle parameter"]


class Move(NamedTuple):
    """Where the particles went, and log L - log q of having gone there."""

    position: Position
    log_kernel_ratio: Float[Array, " particle"]


Evaluate = Callable[[Array], Position]


def leapfrog(
    key: PRNGKeyArray,
    position: Position,
    evaluate: Evaluate,
    step_size: Float[Array, ""],
    n_steps: Int[Array, ""],
) -> Move:
    """Draw momenta and follow the dynamics for `n_steps`, one gradient of the whole window each."""
    start = jax.random.normal(key, position.particles.shape, position.particles.dtype)

    def one_step(_: Array, carry: tuple[Position, Array]) -> tuple[Position, Array]:
        position, momentum = carry
        momentum = momentum + step_size / 2 * position.gradient
        position = evaluate(position.particles + step_size * momentum)
        return position, momentum + step_size / 2 * position.gradient

    position, end = jax.lax.fori_loop(0, n_steps, one_step, (position, start))
    # log N(-P_end) - log N(P_start), summed as a difference of squares.
    return Move(position, jnp.sum((start - end) * (start + end), axis=1) / 2)


class Kernel(NamedTuple):
    """A move and what it costs.

    `gradients(n_steps)` counts the gradients of the whole window that one move evaluates, for a number of
    steps that may be traced: one per step for `leapfrog`, the first point's being known. `default_steps` is S
    where none is chosen; `steps_are_fixed` forbids choosing.
    """

    move: Callable[..., Move]
    default_steps: int
    steps_are_fixed: bool = False
    gradients: Callable[[Any], Any] = lambda n_steps: n_steps


KERNELS: dict[str, Kernel] = {
    "ld": Kernel(leapfrog, default_steps=1, steps_are_fixed=True),
    "hmc": Kernel(leapfrog, default_steps=3),
}
