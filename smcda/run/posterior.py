"""The package's one-call interface: the posterior of any model as weighted samples."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.priors import Parameters, Prior
from smcda.run.loop import Run
from smcda.smc.likelihood import LogLikelihood


class Posterior(NamedTuple):
    """Weighted samples: parameters with a leading particle axis, weights that sum to one."""

    parameters: Parameters
    weights: Float[np.ndarray, " particle"]
    log_evidence: float | None
    trace: dict[str, np.ndarray]


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
    """Sample the posterior of any model: the package's one-call interface.

    `log_likelihood(parameters, x, y)` gives the log-likelihood of each example of a slice; parameters
    are whatever pytree `prior` draws. Settings are the options of `SamplerConfig`, by name. With `shuffle`
    false the data are used in the order given.
    """
    unknown = sorted(set(settings) - {field.name for field in dataclasses.fields(SamplerConfig)})
    if unknown:
        known = ", ".join(field.name for field in dataclasses.fields(SamplerConfig))
        raise BadInput(f"setting {unknown[0]!r} is unknown: choose from {known}")
    config = SamplerConfig(**settings)
    run = Run(Model(log_likelihood, prior), np.asarray(x), np.asarray(y), config, seed, shuffle)
    run.advance(config.iterations)
    parameters = jax.vmap(run.flat.unravel)(run.state.particles)
    return Posterior(parameters, np.exp(np.asarray(run.state.log_weights)), run.log_evidence(), run.trace())
