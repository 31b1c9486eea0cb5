r"""Deep ensemble (Lakshminarayanan, Pritzel, Blundell 2017): networks trained apart, predictions averaged.

Each network starts from its own usual initialisation and goes down the mean negative log-likelihood by Adam
with decoupled weight decay (AdamW, Loshchilov and Hutter 2019, by Optax). The order of the data is the same
for all of them: it is the start that makes members differ (Fort, Hu, Lakshminarayanan 2019).

Weight decay and number of epochs are chosen together, by the log-likelihood of the mixture of a few networks
on a validation split of the training data. The chosen ones then train anew on all of it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import Array, PRNGKeyArray

from smcda.baselines.config import EnsembleConfig
from smcda.baselines.epochs import Epochs, Mean, check_finite
from smcda.baselines.search import Candidate
from smcda.smc.likelihood import Particles


def make_step(learning_rate: float) -> Any:
    """One step of AdamW for all networks; params are the weight decay."""

    def step(
        key: PRNGKeyArray, state: Any, mean: Callable[[Particles], Mean], weight_decay: Array
    ) -> tuple[Any, Array]:
        del key
        particles, moments = state
        value, gradient = mean(particles)
        updates, moments = optax.adamw(learning_rate, weight_decay=weight_decay).update(
            -gradient, moments, particles
        )
        return (optax.apply_updates(particles, updates), moments), value

    return step


def train(
    epochs: Epochs, config: EnsembleConfig, particles: Particles, weight_decay: float, key: PRNGKeyArray
) -> Iterator[tuple[int, Particles, float]]:
    """Train, and after every epoch give its number, the networks, and the mean log-likelihood per example."""
    # The moments of Adam depend on neither rate nor decay.
    state = particles, optax.adamw(config.learning_rate).init(particles)
    decay = jax.numpy.float32(weight_decay)
    for epoch in range(1, config.epochs + 1):
        state, value = epochs(jax.random.fold_in(key, epoch), state, decay)
        if not np.isfinite(value):
            check_finite(state[0], config.learning_rate)
        yield epoch, state[0], value


def search(
    epochs: Epochs,
    config: EnsembleConfig,
    particles: Particles,
    key: PRNGKeyArray,
    score: Callable[[Particles], float],
) -> Iterator[Candidate]:
    """Train a few networks with each weight decay; its score is that of its best epoch."""
    for weight_decay in config.weight_decay:
        scores = [score(found) for _, found, _ in train(epochs, config, particles, weight_decay, key)]
        best = int(np.argmax(scores))
        yield Candidate(weight_decay, scores[best], best + 1)
