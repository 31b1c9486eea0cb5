"""What is sampled: a model's predictions, what they mean, and what its parameters are before the data."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array

from smcda.errors import BadInput
from smcda.models.flat import Flattened, Parameters, ravel, unravelling
from smcda.models.likelihoods import Likelihood
from smcda.models.priors import Prior, PriorLike, joint
from smcda.smc.batches import ShuffledData, Window
from smcda.smc.likelihood import BatchLikelihood, LikelihoodSums, LogLikelihood, Particles

ParticleOutputs = Callable[[Array, Any], Any]
"""``(particles, x) -> outputs`` of each particle on each example, for flat particles."""

Predict = Callable[[Parameters, Any], Any]


class FastCode(NamedTuple):
    """A faster implementation of a model's likelihood and outputs.

    `name` identifies the code: another compiler, processor or source has another name.
    """

    likelihood: BatchLikelihood
    outputs: ParticleOutputs
    name: str


def reparametrised(fast: FastCode, flat: Flattened) -> FastCode:
    """The same code for particles of a prior with a transform, by the chain rule."""
    if (transform := flat.transform) is None:
        return fast

    def parameters(particles: Particles) -> tuple[Any, Callable[[Any], tuple[Any]]]:
        # Differentiated as pytrees: through `unravel` each leaf's gradient would be padded and added.
        return jax.vjp(jax.vmap(transform), jax.vmap(flat.unravel_sampled)(particles))

    def likelihood(particles: Particles, data: ShuffledData, window: Window) -> LikelihoodSums:
        theta, pull_back = parameters(particles)
        sums = fast.likelihood(jax.vmap(ravel)(theta), data, window)
        _, unravel = unravelling(jax.tree.map(lambda leaf: leaf[0], theta))

        def chain(gradient: Array) -> Array:
            return jax.vmap(ravel)(pull_back(jax.vmap(unravel)(gradient))[0])

        return sums._replace(gradient=jax.vmap(chain)(sums.gradient))

    def outputs(particles: Particles, x: Any) -> Any:
        return fast.outputs(jax.vmap(ravel)(parameters(particles)[0]), x)

    return FastCode(likelihood, outputs, fast.name)


@dataclasses.dataclass(frozen=True)
class Model:
    """A model with a likelihood and a prior.

    Attributes:
        predict: ``(parameters, x)`` to outputs, one row per example of a slice.
        likelihood: what outputs mean, one of `smcda.likelihoods`.
        prior: over the parameters, one of `smcda.priors` or a dictionary of them.
        predict_in_training: the same as `predict` while sampling, where that differs (batch normalisation).
        native: builds or loads a faster implementation for CPUs.
        minibatch: number of examples that depend on each other, and must not be cut any further.

    """

    predict: Predict | None
    likelihood: Likelihood | None
    prior: PriorLike
    predict_in_training: Predict | None = None
    native: Callable[[], FastCode] | None = None
    minibatch: int | None = None
    given_log_likelihood: LogLikelihood | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.given_log_likelihood is not None:
            _check_function("log_likelihood", self.given_log_likelihood, "(parameters, x, y)")
            return
        _check_function("predict", self.predict, "(parameters, x)")
        if not isinstance(self.likelihood, Likelihood):
            raise BadInput(
                f"likelihood is of type {type(self.likelihood).__name__}, but must be one of "
                "smcda.likelihoods, such as likelihoods.gaussian()"
            )

    @classmethod
    def from_log_likelihood(cls, log_likelihood: LogLikelihood, prior: PriorLike) -> "Model":
        """A model of which only ``(parameters, x, y) -> log-likelihood of each example`` is known."""
        return cls(None, None, prior, given_log_likelihood=log_likelihood)

    @property
    def joint_prior(self) -> Prior:
        """The prior over everything that is sampled: the parameters, and the likelihood's own if it has some.

        With some, parameters are a dictionary of ``model`` and ``likelihood``.
        """
        if self.likelihood is None or self.likelihood.prior is None:
            return joint(self.prior)
        return joint({"model": self.prior, "likelihood": self.likelihood.prior})

    def outputs(self, parameters: Parameters, x: Any) -> Any:
        """What the likelihood takes: predictions and, where it has some, its own parameters."""
        assert self.predict is not None
        return self._apply(self.predict, parameters, x)

    def log_likelihood(self, parameters: Parameters, x: Any, y: Any) -> Array:
        """Log-likelihood of each example of a slice, as it is sampled."""
        if self.given_log_likelihood is not None:
            return self.given_log_likelihood(parameters, x, y)
        predict = self.predict_in_training or self.predict
        assert predict is not None and self.likelihood is not None
        return self.likelihood.log_prob(self._apply(predict, parameters, x), y)

    def _apply(self, predict: Predict, parameters: Parameters, x: Any) -> Any:
        if self.likelihood is None or self.likelihood.prior is None:
            return predict(parameters, x)
        return predict(parameters["model"], x), parameters["likelihood"]


def _check_function(name: str, value: Any, arguments: str) -> None:
    if not callable(value):
        raise BadInput(f"{name} is of type {type(value).__name__}, but must be a function of {arguments}")
