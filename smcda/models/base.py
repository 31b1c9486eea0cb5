"""What the sampler and the predictor need to know of a model."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array

from smcda.models.likelihoods import Likelihood
from smcda.models.priors import Prior
from smcda.smc.likelihood import BatchLikelihood, LogLikelihood

ParticleOutputs = Callable[[Array, Array], Array]
"""``(particles, x) -> outputs`` of each particle on each example, for flat particles."""


class FastCode(NamedTuple):
    """A faster implementation of a model's likelihood and outputs.

    `name` identifies the code: another compiler, processor or source has another name.
    """

    likelihood: BatchLikelihood
    outputs: ParticleOutputs
    name: str


class Model(NamedTuple):
    """A likelihood and a prior and, for a model that is to be tested, its predictions.

    ``log_likelihood(parameters, x, y)`` is the log-likelihood of each example of a slice, while sampling;
    ``predict(parameters, x)`` the outputs that `likelihood` turns into a predictive. `native` builds or loads
    a faster implementation for CPUs. Where `minibatch` is given, examples depend on each other in groups of
    that many (batch normalisation), which must not be cut any further.
    """

    log_likelihood: LogLikelihood
    prior: Prior
    predict: Callable[[Any, Any], Array] | None = None
    likelihood: Likelihood | None = None
    native: Callable[[], FastCode] | None = None
    minibatch: int | None = None
