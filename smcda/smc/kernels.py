r"""Moves: leapfrog from a fresh Gaussian momentum, with or without a Metropolis test at the end.

From momentum P ~ N(0, I), each of S steps of size h is

    P <- P + h/2 L' grad log pi(theta);   theta <- theta + h L P;   P <- P + h/2 L' grad log pi(theta),

with L the factor of a metric (the identity unless one was learnt, see ``adaptation``). The map is reversible
and keeps volume. Two ways to make it exact follow.

Unadjusted, as published: every particle goes, and its weight pays for it. With the L-kernel that runs the
map backwards from -P the Jacobians cancel, and the weight needs only ``log N(-P_end) - log N(P_start)``.

Adjusted: the particle goes with probability ``min(1, exp(-energy error))`` and stays otherwise, which leaves
pi invariant, so the weight needs nothing (Duane et al. 1987).

Langevin dynamics (LD; adjusted: MALA) is the case S = 1, Hamiltonian Monte Carlo (HMC) any S; both share one
compiled program.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from smcda.smc.likelihood import LikelihoodSums, Particles, Replicate, identity
from smcda.smc.normals import normal

Metric = Float[Array, "parameter"] | Float[Array, "parameter parameter"]
"""The factor L, or its diagonal."""


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
    metric: Metric | None = None,
) -> Move:
    """Draw momenta and follow the dynamics for `n_steps`, one gradient of the whole window each."""
    start = normal(key, position.particles.shape).astype(position.particles.dtype)

    def half_kick(momentum: Array, gradient: Array) -> Array:
        return momentum + step_size / 2 * times_transpose(metric, gradient)

    def one_step(_: Array, carry: tuple[Position, Array]) -> tuple[Position, Array]:
        position, momentum = carry
        momentum = half_kick(momentum, position.gradient)
        position = evaluate(position.particles + step_size * times(metric, momentum))
        return position, half_kick(momentum, position.gradient)

    position, end = jax.lax.fori_loop(0, n_steps, one_step, (position, start))
    # log N(-P_end) - log N(P_start), summed as a difference of squares.
    return Move(position, jnp.sum((start - end) * (start + end), axis=1) / 2)


def times(metric: Metric | None, momenta: Particles) -> Particles:
    """``L p`` of each particle."""
    if metric is None:
        return momenta
    return metric * momenta if metric.ndim == 1 else momenta @ metric.T


def times_transpose(metric: Metric | None, gradients: Particles) -> Particles:
    """``L' g`` of each particle."""
    if metric is None:
        return gradients
    return metric * gradients if metric.ndim == 1 else gradients @ metric


def metropolis(
    key: PRNGKeyArray,
    before: Position,
    after: Position,
    log_ratio: Float[Array, " particle"],
    replicate: Replicate = identity,
) -> tuple[Position, Float[Array, " particle"]]:
    """Accept each particle's move with probability ``min(1, exp(log_ratio))``; also give the probability.

    Where the log-density at the end is not finite the move is refused.
    """
    probability = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(log_ratio), log_ratio, -jnp.inf), 0.0))
    accepted = replicate(jax.random.uniform(key, probability.shape) < probability)
    sums = LikelihoodSums(
        *(_choose(accepted, *pair, axis=1) for pair in zip(after.sums, before.sums, strict=True))
    )
    particles = _choose(accepted, after.particles, before.particles, axis=0)
    gradient = _choose(accepted, after.gradient, before.gradient, axis=0)
    return Position(particles, sums, gradient), probability


def _choose(which: Bool[Array, " particle"], yes: Array, no: Array, axis: int) -> Array:
    shape = [1] * yes.ndim
    shape[axis] = -1
    return jnp.where(which.reshape(shape), yes, no)


class Kernel(NamedTuple):
    """A move and what it costs.

    `gradients(n_steps)` counts the gradients of the whole window that one move evaluates, for a number of
    steps that may be traced: one per step for `leapfrog`, the first point's being known. `default_steps` is S
    where none is chosen; `steps_are_fixed` forbids choosing. Where the move is adjusted, `most_steps` is the
    largest S unless another is chosen, and `acceptance` the acceptance rate that the step size aims at.
    """

    move: Callable[..., Move]
    default_steps: int
    steps_are_fixed: bool = False
    gradients: Callable[[Any], Any] = lambda n_steps: n_steps
    most_steps: int = 64
    acceptance: float = 0.8


KERNELS: dict[str, Kernel] = {
    # The best acceptance rate of MALA in high dimension is 0.574 (Roberts and Rosenthal 1998).
    "ld": Kernel(leapfrog, default_steps=1, steps_are_fixed=True, most_steps=1, acceptance=0.574),
    "hmc": Kernel(leapfrog, default_steps=3),
}
