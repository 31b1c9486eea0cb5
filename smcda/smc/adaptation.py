r"""What adjusted moves learn from the particles: metric, step size, trajectory, and when to stop moving.

**Metric.** Leapfrog moves well where the target looks like N(0, I), so it runs in coordinates u with
``theta = L u``. For a Gaussian target with precision H the right factor has ``L L' = H^{-1}``. The particles'
own covariance C is a poor estimate of that: right after resampling they lie too close in some directions,
and a metric that believes them moves least where it should move most. The scores (gradients of the
log-target) know better. Their covariance is ``S = H C H``, so the geometric mean of C and ``S^{-1}`` is
``H^{-1}`` exactly, however wide the particles lie; for other targets it is the Gaussian nearest in Fisher
divergence. Per coordinate it is ``L_ii^2 = sd(theta_i) / sd(score_i)``, which for a weight that the data do
not determine is its prior variance.

**Step size.** One for all particles, changed after every move so that the mean acceptance probability
approaches the kernel's best.

**Trajectory.** A quarter of a period, pi/2 in the coordinates u, after which a Gaussian is forgotten;
jittered, and cut off at a largest number of steps.

**Moves per target.** As many as it takes until the particles have forgotten where they were when the target
changed: the correlation over particles between then and now, of the log-likelihood and of every coordinate
(of random projections in high dimension), is small. Or it has stopped falling although moves have doubled:
particles that have explored a mode of their own do not forget which one it is, however often they move.
Particles that were all alike, or are, tell nothing about what they have forgotten: they move as often as
they may.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from smcda.smc.kernels import Metric
from smcda.smc.likelihood import Particles, Replicate, identity

MAX_DENSE = 128
"""Largest number of parameters for a metric with correlations."""

N_PROJECTIONS = 32
"""Random directions in which decorrelation is measured where there are more parameters than that."""

TRAJECTORY = jnp.pi / 2
JITTER = 0.2
GAIN = 1.0
"""Change of the log step size per unit of missing acceptance probability."""

FORGOTTEN = 0.25
"""Largest correlation that counts as none."""

PLATEAU = 1.15
"""Largest growth of the squared distance, as moves double, that counts as none; diffusion has 2."""

MIN_MOVES = 3
"""Least number of moves per target: one that is refused leaves copies behind, and so may a second."""


class Adaptation(NamedTuple):
    """What has been learnt so far, and how the moves of the current target are going.

    `reference` are the statistics of the particles when the target last changed, `correlation` the largest of
    their correlations with the current ones after `n_moves` moves, less what chance makes of so many pairs.
    `earlier` has all of them after half as many moves, and `stands` which have stopped falling. `is_settled`
    says that the moves were enough, `is_done` that they were so at the last target.
    """

    log_step_size: Float[Array, ""]
    metric: Metric
    reference: Float[Array, "statistic particle"]
    correlation: Float[Array, ""]
    earlier: Float[Array, " compared"]
    stands: Bool[Array, " compared"]
    n_moves: Int[Array, ""]
    is_settled: Bool[Array, ""]
    is_done: Bool[Array, ""]


def start(
    particles: Particles,
    scores: Particles,
    log_likelihood: Float[Array, " particle"],
    replicate: Replicate = identity,
) -> Adaptation:
    """What is known of the prior; it counts as settled."""
    n_particles, n_parameters = particles.shape
    uniform = jnp.full(n_particles, -jnp.log(n_particles))
    spread = jnp.std(particles, axis=0)
    metric = fisher_metric(particles, scores, uniform, jnp.where(spread > 0, spread, 1.0))
    reference = statistics(particles, log_likelihood, metric, replicate)
    known = correlations(reference, reference, n_parameters)
    return Adaptation(
        # What a Gaussian of this dimension bears at an acceptance of about 0.8.
        log_step_size=jnp.log(1.2 * n_parameters**-0.25).astype(particles.dtype),
        metric=metric,
        reference=reference,
        correlation=jnp.asarray(0, particles.dtype),
        earlier=known,
        stands=jnp.zeros(known.shape, bool),
        n_moves=jnp.asarray(0, jnp.int32),
        is_settled=jnp.asarray(True),
        is_done=jnp.asarray(False),
    )


def fisher_metric(
    particles: Particles,
    scores: Particles,
    log_weights: Float[Array, " particle"],
    fallback: Float[Array, " parameter"],
) -> Metric:
    """The metric's factor from weighted particles and their scores.

    `fallback` is the scale of a coordinate in which all particles agree.
    """
    weights = jnp.exp(log_weights)
    alive = (weights > 0) & jnp.all(jnp.isfinite(scores), axis=1)
    weights = jnp.where(alive, weights, 0.0)
    weights = weights / jnp.sum(weights)
    theta, score = (
        values - weights @ values
        for values in (jnp.where(alive[:, None], values, 0.0) for values in (particles, scores))
    )
    var_theta, var_score = (weights @ values**2 for values in (theta, score))
    sd = jnp.sqrt(var_theta)
    # A flat prior has no scores at all; and where the scores are too small to trust, so is their ratio.
    scale = jnp.where(var_score > 0, jnp.minimum((var_theta / var_score) ** 0.25, 100 * sd), sd)
    scale = jnp.where(var_theta > 0, scale, fallback)
    n_parameters = scale.size
    if n_parameters > MAX_DENSE:
        return scale
    # In units of `scale` both covariances have the same diagonal; without correlations the metric is 1.
    theta, score = theta / scale, score * scale
    # Fewer particles than directions say nothing about some of them, so correlations are shrunk.
    trust = 1 / (1 + n_parameters * jnp.sum(weights**2) / 20)
    shrink = jnp.where(jnp.eye(n_parameters, dtype=bool), 1.0, trust)
    known = (var_theta > 0) & (var_score > 0)
    both_known = known[:, None] & known
    alone = jnp.diag(jnp.where(known, 0.0, jnp.maximum(jnp.max(sd * jnp.sqrt(var_score)), 1e-30)))
    cov_theta, cov_score = (
        jnp.where(both_known, shrink * ((weights[:, None] * values).T @ values), alone)
        for values in (theta, score)
    )
    root = _power(cov_theta, 0.5)
    factor = scale[:, None] * (root @ _power(root @ cov_score @ root, -0.25))
    return jnp.where(jnp.all(jnp.isfinite(factor)), factor, jnp.diag(scale))


def _power(matrix: Float[Array, "n n"], exponent: float) -> Float[Array, "n n"]:
    """A power of a symmetric matrix whose eigenvalues should be positive."""
    values, vectors = jnp.linalg.eigh(matrix)
    values = jnp.maximum(values, 1e-6 * values[-1])
    return (vectors * values**exponent) @ vectors.T


def coordinate_scale(metric: Metric) -> Float[Array, " parameter"]:
    """The scale of each coordinate under a metric."""
    return metric if metric.ndim == 1 else jnp.linalg.norm(metric, axis=1)


def n_leapfrog_steps(
    key: PRNGKeyArray, step_size: Float[Array, ""], at_most: Int[Array, ""]
) -> Int[Array, ""]:
    """Steps of the next trajectory: a quarter period or as many as allowed, jittered."""
    steps = jnp.minimum(TRAJECTORY / step_size, at_most / (1 + JITTER))
    jittered = steps * jax.random.uniform(key, minval=1 - JITTER, maxval=1 + JITTER)
    return jnp.clip(jnp.round(jittered), 1, at_most).astype(jnp.int32)


def statistics(
    particles: Particles,
    log_likelihood: Float[Array, " particle"],
    metric: Metric,
    replicate: Replicate = identity,
) -> Float[Array, "statistic particle"]:
    """Standardised statistics whose correlation over time tells how much is forgotten.

    One in which all particles agree is zero, and so are all where the particles are copies of one.
    """
    n_parameters = particles.shape[1]
    coordinates = values = particles.T
    if n_parameters > MAX_DENSE:
        signs = jax.random.rademacher(jax.random.key(0), (N_PROJECTIONS, n_parameters), particles.dtype)
        values = (signs / metric) @ values
        # Projections of copies may differ by rounding; coordinates do not, and distinct particles share none.
        coordinates = coordinates[:N_PROJECTIONS]
    coordinates, values = replicate((coordinates, jnp.concatenate([log_likelihood[None], values])))
    agree = _agree(values) | jnp.all(_agree(coordinates))
    values = jnp.where(agree, 0.0, values - values.mean(axis=1, keepdims=True))
    length = jnp.linalg.norm(values, axis=1, keepdims=True)
    return values / jnp.maximum(length, jnp.finfo(values.dtype).tiny)


def _agree(values: Float[Array, "statistic particle"]) -> Bool[Array, "statistic 1"]:
    # To the bit: rounding of their mean would leave a remainder that looks like a statistic.
    return jnp.all(values == values[:, :1], axis=1, keepdims=True)


def correlations(
    reference: Float[Array, "statistic particle"], now: Float[Array, "statistic particle"], n_parameters: int
) -> Float[Array, " compared"]:
    """Correlation over particles between then and now, of every statistic that is judged.

    Random projections are averaged: each alone would say little where particles are few.
    """
    each = jnp.sum(reference * now, axis=1)
    return each if n_parameters <= MAX_DENSE else jnp.stack([each[0], jnp.mean(each[1:])])


def after_move(
    adaptation: Adaptation,
    now: Float[Array, "statistic particle"],
    acceptance: Float[Array, ""],
    best_acceptance: float,
    is_last: Bool[Array, ""],
    max_moves: Int[Array, ""],
    final_moves: Int[Array, ""],
) -> Adaptation:
    """Learn from a move: the next step size, and whether the particles have settled."""
    n_moves = adaptation.n_moves + 1
    each = correlations(adaptation.reference, now, adaptation.metric.shape[0])
    # What chance makes of J independent pairs; an average of projections has hardly any.
    chance = jnp.full(each.shape, 2 / jnp.sqrt(now.shape[1]))
    chance = chance if len(each) == len(now) else chance.at[1].set(0.0)
    left = jnp.abs(each) - chance
    # While particles still diffuse, twice the moves make twice the squared distance.
    doubled = n_moves & (n_moves - 1) == 0
    stands = doubled & (n_moves >= 4) & (1 - each < PLATEAU * (1 - adaptation.earlier))
    stands |= adaptation.stands
    least = jnp.where(is_last, final_moves, MIN_MOVES)
    most = jnp.where(is_last, jnp.maximum(max_moves, final_moves), max_moves)
    alike = jnp.all(now == 0) | jnp.all(adaptation.reference == 0)
    is_forgotten = jnp.all((left < FORGOTTEN) | stands) & ~alike
    is_settled = is_forgotten & (n_moves >= least) | (n_moves >= most)
    return adaptation._replace(
        log_step_size=adaptation.log_step_size + GAIN * (acceptance - best_acceptance),
        correlation=jnp.where(alike, 1.0, jnp.max(left)),
        earlier=jnp.where(doubled, each, adaptation.earlier),
        stands=stands,
        n_moves=n_moves,
        is_settled=is_settled,
        is_done=is_settled & is_last,
    )
