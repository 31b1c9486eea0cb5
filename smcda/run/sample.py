"""The one-call interface: sample the posterior of any model, and what comes back."""

import dataclasses
import logging
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from smcda.config import SamplerConfig, cache_dir
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.priors import Parameters, Prior
from smcda.run.diagnostics import Diagnostic
from smcda.run.loop import Run
from smcda.run.summary import Summary, summarise
from smcda.smc.likelihood import LogLikelihood

logger = logging.getLogger("smcda")


@dataclasses.dataclass(frozen=True)
class Posterior:
    """Weighted samples of a posterior, and how far to trust them.

    Attributes:
        parameters: what the prior draws, each array with a leading axis for the particles.
        weights: one per particle, summing to one; all equal where moves are adjusted.
        log_evidence: logarithm of the marginal likelihood, or None where it can't be trusted.
        log_evidence_error: its standard error, in nats.
        diagnostics: reasons for doubt, none for a healthy run.
        trace: one array per column of `trace.csv`, one entry per iteration.
        root_ancestor: which of the first draws each particle descends from.

    """

    parameters: Parameters
    weights: Float[np.ndarray, " particle"]
    log_evidence: float | None
    log_evidence_error: float | None
    diagnostics: list[Diagnostic]
    trace: dict[str, np.ndarray]
    root_ancestor: np.ndarray = dataclasses.field(repr=False)

    def summary(self) -> Summary:
        """Mean, standard deviation, quantiles and effective sample size of every parameter."""
        return summarise(self.parameters, self.weights, self.root_ancestor)


def sample(
    log_likelihood: LogLikelihood,
    prior: Prior,
    x: Any,
    y: Any,
    *,
    seed: int = 0,
    shuffle: bool = True,
    **settings: Any,
) -> Posterior:
    """Sample the posterior of any model; nothing has to be tuned.

    Args:
        log_likelihood: ``(parameters, x, y)`` to the log-likelihood of each example of a slice.
        prior: what parameters are before the data; any pytree.
        x: inputs, one row per example.
        y: outputs, as many rows.
        seed: of the data's order and of every draw.
        shuffle: whether the data may be put in a random order first.
        **settings: options of `SamplerConfig`, by name.

    Doubts about the result are logged as warnings, and listed in its `diagnostics`. Compiled programs are
    cached in the user's cache folder, unless JAX is configured to cache them elsewhere.

    """
    known = [field.name for field in dataclasses.fields(SamplerConfig)]
    for name in settings:
        if name not in known:
            raise BadInput(f"setting {name!r} is unknown: choose from {', '.join(known)}")
    config = SamplerConfig(**settings)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        # The next process need not compile the same program again; a choice of the user's own stays.
        jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    run = Run(Model(log_likelihood, prior), np.asarray(x), np.asarray(y), config, seed, shuffle)
    run.advance(config.iterations)
    diagnosis = run.diagnose()
    for doubt in diagnosis.doubts:
        logger.warning(doubt.message)
    return Posterior(
        jax.vmap(run.flat.unravel)(run.state.particles),
        np.exp(np.asarray(run.state.log_weights)),
        diagnosis.log_evidence,
        diagnosis.log_evidence_error,
        diagnosis.doubts,
        run.trace(),
        np.asarray(run.state.root_ancestor),
    )
