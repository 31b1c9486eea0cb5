r"""Whether a run's answer is to be trusted, in one line per doubt; and the evidence with its error.

**Error of the evidence.** Two estimates of the variance of log Z, of which the larger counts:

- from the genealogy. The particles that descend from one first draw share its luck. With c_i the share of
  root ancestor i, the relative variance of Z is ``sum_i (c_i - 1/J)^2`` (after Lee and Whiteley 2018). It
  sees moves that do not mix, but saturates at one when a single ancestor is left;
- from the weights. Each time ancestors are drawn adds ``(J / ESS - 1) / J``, as if the particles between
  were independent.

**Doubts.** Each names a number, what it means and what to change. Some mean that the evidence is not to be
trusted either: then there is none.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from smcda.config import ADAPTIVE, SamplerConfig

Trace = dict[str, np.ndarray]

FEW_PARTICLES = 8
FEW_ANCESTORS = 0.05  # share of J
LARGE_ENERGY_ERROR = 3.0  # nats per move; weights that differ by it in either direction
SHORT_WAY = 0.1  # prior standard deviations
FEW_EFFECTIVE = 3  # particles left by one change of target
REMEMBERED = 0.5  # correlation with where particles were
ACCEPTANCE = (0.3, 0.97)
DRIFT = 0.5  # standard deviations of the log-likelihood over particles
LARGE_EVIDENCE_ERROR = 1.0  # nats
UNSETTLED = 0.25  # share of targets; a few on the way are made up for by the moves at later ones


class Diagnostic(NamedTuple):
    """One reason for doubt: its name, the number it goes by, and a line that says what to change."""

    name: str
    value: float
    message: str
    spoils_evidence: bool = True


class Particles(NamedTuple):
    """What of the final particles is judged: weights, root ancestors, and how far they have come.

    `distance` is the root mean square way from the root ancestor, in standard deviations of the prior.
    """

    weights: Float[np.ndarray, " particle"]
    root_ancestor: Int[np.ndarray, " particle"]
    distance: float


def evidence_error(trace: Trace, particles: Particles) -> float:
    """Standard error of the log evidence, in nats."""
    n_particles = len(particles.weights)
    shares = np.bincount(particles.root_ancestor, particles.weights, n_particles)
    genealogy = np.sum((shares - 1 / n_particles) ** 2)
    drawn = trace["resampled"].astype(bool)
    drawn[-1] = True  # what has gathered since the last draw counts as well
    from_weights = np.sum(1 / np.maximum(trace["ess"][drawn], 1) - 1 / n_particles)
    return float(np.sqrt(max(genealogy, from_weights, 0.0)))


def diagnose(
    config: SamplerConfig, n_data: int, trace: Trace, particles: Particles, error: float | None
) -> list[Diagnostic]:
    """Every doubt about a finished run; `error` is that of the log evidence, where there is one."""
    found = [*_unfinished(config, n_data, trace)]
    if config.adjusted and config.particles < FEW_PARTICLES:
        found += _few_particles(config)
    elif config.adjusted:
        found += [*_acceptance(trace), *_drift(trace)]
        if config.is_adaptive:
            found += [*_few_effective(config, trace), *_not_settled(config, trace)]
        else:
            found += _few_ancestors(trace, particles)
    else:
        found += [*_few_ancestors(trace, particles), *_energy(config, trace), *_unmoved(config, particles)]
    if any(doubt.spoils_evidence for doubt in found):
        return found
    if error is not None and error > LARGE_EVIDENCE_ERROR:
        found.append(
            Diagnostic(
                "evidence_error",
                error,
                f"log_evidence has a standard error of {error:.1f} nats with {config.particles} particles: "
                "use more of them (the error falls with their square root)"
                + (f", or a larger ess_target (now {config.ess_target:g})" if config.is_adaptive else ""),
                spoils_evidence=False,
            )
        )
    return found


def _unfinished(config: SamplerConfig, n_data: int, trace: Trace) -> Iterator[Diagnostic]:
    size, beta = int(trace["batch_size"][-1]), float(trace["beta"][-1])
    if size >= n_data and beta >= 1:
        return
    more = f"raise iterations (now {config.iterations})"
    if config.scheme == "constant":
        more = f"choose a scheme that ends with all data, such as {ADAPTIVE}"
    yield Diagnostic(
        "unfinished",
        size / n_data,
        f"the last target holds {size} of {n_data} examples, at beta {beta:.3g}: this is not the posterior "
        f"of all data; {more}",
    )


def _few_particles(config: SamplerConfig) -> Iterator[Diagnostic]:
    yield Diagnostic(
        "few_particles",
        config.particles,
        f"{config.particles} particles can show neither the width of a posterior nor its evidence: use "
        f"hundreds, or for a large network at least {FEW_PARTICLES}",
    )


def _few_effective(config: SamplerConfig, trace: Trace) -> Iterator[Diagnostic]:
    fewest = float(np.min(trace["ess"]))
    if fewest < FEW_EFFECTIVE:
        yield Diagnostic(
            "few_effective",
            fewest,
            f"a change of target left an effective {fewest:.1f} of {config.particles} particles, too few to "
            f"weigh it by: raise ess_target (now {config.ess_target:g}) or particles",
        )


def _few_ancestors(trace: Trace, particles: Particles) -> Iterator[Diagnostic]:
    n_particles, n_left = len(particles.weights), int(trace["unique_ancestors"][-1])
    if n_left > max(1, FEW_ANCESTORS * n_particles):
        return
    yield Diagnostic(
        "few_ancestors",
        n_left,
        f"all {n_particles} particles descend from {n_left} of the first draws: they show the way from "
        f"there, not the width of the posterior; choose scheme {ADAPTIVE}",
    )


def _energy(config: SamplerConfig, trace: Trace) -> Iterator[Diagnostic]:
    errors = trace["energy_error"]
    error = float(np.mean(errors[len(errors) // 2 :]))
    if not error <= LARGE_ENERGY_ERROR:
        yield Diagnostic(
            "energy_error",
            error,
            f"a move changes the energy by {error:.3g} nats on average, and a stable one by less than 1: "
            f"the weights mean nothing; lower step_size (now {config.step_size:g}), or choose scheme "
            f"{ADAPTIVE}",
        )


def _unmoved(config: SamplerConfig, particles: Particles) -> Iterator[Diagnostic]:
    if particles.distance < SHORT_WAY:
        yield Diagnostic(
            "unmoved",
            particles.distance,
            f"the particles have moved {particles.distance:.2g} standard deviations of the prior from where "
            f"they were drawn: raise step_size (now {config.step_size:g}) or iterations (now "
            f"{config.iterations}), or choose scheme {ADAPTIVE}",
        )


def acceptance_rate(trace: Trace) -> float:
    """Mean probability with which moves were accepted, over the last third of them."""
    rates = trace["acceptance"]
    return float(np.mean(rates[-max(10, len(rates) // 3) :]))


def _acceptance(trace: Trace) -> Iterator[Diagnostic]:
    rate = acceptance_rate(trace)
    low, high = ACCEPTANCE
    if not low <= rate <= high:
        what = "hardly any move is accepted" if rate < low else "moves are too short to be refused"
        yield Diagnostic(
            "acceptance",
            rate,
            f"the acceptance rate is {rate:.2f} (wanted: {low} to {high}), {what}: check that the "
            "log-likelihood is smooth and its gradient finite",
        )


def _not_settled(config: SamplerConfig, trace: Trace) -> Iterator[Diagnostic]:
    last = np.append(trace["n_moves"][1:] == 1, True)
    correlation = trace["correlation"][last]
    unsettled = (correlation > REMEMBERED) & (trace["n_moves"][last] >= config.max_moves)
    if np.mean(unsettled) <= UNSETTLED:
        return
    largest = float(np.max(correlation))
    longer = f", or leapfrog_steps (now {config.leapfrog_steps})" if config.leapfrog_steps > 1 else ""
    yield Diagnostic(
        "not_settled",
        largest,
        f"at {unsettled.sum()} of {len(unsettled)} targets the particles had not settled after "
        f"max_moves = {config.max_moves} (correlation up to {largest:.2f} with where they were): "
        f"log_evidence may be too low; raise max_moves{longer}",
        spoils_evidence=bool(np.median(correlation[unsettled]) > 0.8),
    )


def drift(trace: Trace) -> tuple[float, int] | None:
    """How far the log-likelihood rises at the last target, and over how many moves; None where too few.

    From their first half to their second, in standard deviations over the particles.
    """
    first = np.flatnonzero(trace["n_moves"] == 1)[-1]
    values = (trace["log_likelihood"] * trace["batch_size"])[first:]
    half = len(values) // 2
    spread = float(np.mean(trace["log_likelihood_sd"][first:]))
    if half < 2 or spread == 0:
        return None
    return float(np.mean(values[-half:]) - np.mean(values[:half])) / spread, len(values)


def _drift(trace: Trace) -> Iterator[Diagnostic]:
    """Whether the log-likelihood still rises or falls over the moves at the last target."""
    found = drift(trace)
    if found is None:
        return
    by, n_moves = found
    noise = 3 * np.sqrt(2 / (n_moves // 2) / trace["ess"][-1])
    if abs(by) > max(DRIFT, noise):
        yield Diagnostic(
            "drift",
            by,
            f"the log-likelihood still drifts at the last target, by {by:+.2f} of its standard deviations "
            f"over {n_moves} moves: raise final_moves above that",
        )
