"""Options of the baselines, declared as those of a run are (`smcda.config`); nothing here imports JAX."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from smcda._options import check, option
from smcda.errors import BadInput

DEFAULT_BATCH = 50


def _batch_size() -> Any:
    return option(
        None,
        "examples per step, the last step of an epoch perhaps fewer",
        at_least=1,
        unset=f"{DEFAULT_BATCH}; all if there are fewer",
    )


def _validation() -> Any:
    return option(
        0.2,
        "share of the training examples that chooses between candidates; 0: nothing is chosen",
        at_least=0,
        at_most=0.5,
    )


@dataclass(frozen=True)
class EnsembleConfig:
    """How to train a deep ensemble."""

    name: ClassVar[str] = "deep_ensemble"
    kernel: ClassVar[str] = "adam"
    candidates_of: ClassVar[str] = "weight_decay"
    reads_prior: ClassVar[bool] = False

    particles: int = option(16, "number of networks", symbol="J", at_least=2)
    epochs: int = option(
        200, "epochs of training; with validation at most, and it chooses how many", at_least=1
    )
    learning_rate: float = option(0.001, "learning rate of Adam", above=0)
    weight_decay: tuple[float, ...] = option(
        (0.0, 0.1, 1.0, 10.0), "decoupled weight decay, candidates of the search", symbol="X", at_least=0
    )
    search_particles: int = option(4, "networks that are trained per candidate", at_least=2)
    batch_size: int | None = _batch_size()
    validation: float = _validation()
    evaluate_every: int = option(10, "epochs between test evaluations", at_least=1)

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class SGHMCConfig:
    """How to sample by cyclical stochastic-gradient HMC."""

    name: ClassVar[str] = "sghmc"
    kernel: ClassVar[str] = "cyclical"
    candidates_of: ClassVar[str] = "learning_rate"
    reads_prior: ClassVar[bool] = True

    particles: int = option(
        16, "number of samples that are kept, of all chains together", symbol="J", at_least=2
    )
    chains: int = option(4, "chains side by side; each keeps J / chains samples, one per cycle", at_least=2)
    cycle_epochs: int = option(100, "epochs per cycle, at whose end each chain keeps a sample", at_least=1)
    learning_rate: tuple[float, ...] = option(
        (0.01, 0.03, 0.1, 0.3),
        "largest learning rate of a cycle, candidates of the search; the step size is its square root over "
        "that of N",
        symbol="X",
        above=0,
    )
    momentum: float = option(0.9, "share of the momentum that a step keeps", at_least=0, at_most=0.999)
    start: str | None = option(
        None,
        "where chains start, a network's usual initialisation or the prior",
        choices=("lecun", "prior"),
        unset="lecun; prior for a model without Flax layers",
    )
    batch_size: int | None = _batch_size()
    validation: float = _validation()

    def __post_init__(self) -> None:
        _check(self)
        if self.particles % self.chains:
            raise BadInput(
                f"particles is {self.particles}, but must be a multiple of chains ({self.chains}), each of "
                "which keeps as many: choose another"
            )


BaselineConfig = EnsembleConfig | SGHMCConfig
BASELINES: dict[str, type[EnsembleConfig] | type[SGHMCConfig]] = {
    config.name: config for config in (EnsembleConfig, SGHMCConfig)
}


def _check(config: Any) -> None:
    check(config)
    name = config.candidates_of
    candidates = getattr(config, name)
    if len(set(candidates)) < len(candidates) or not candidates:
        raise BadInput(
            f"{name} is {candidates}, but must name each candidate once, and at least one: correct it"
        )
    if config.validation == 0 and len(candidates) > 1:
        raise BadInput(
            f"validation is 0, but {name} has {len(candidates)} candidates, between which nothing could "
            "choose: give one, or a validation share above 0"
        )


def described(config: BaselineConfig) -> dict[str, Any]:
    """Every option by name."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def batch_size_for(config: BaselineConfig, n_data: int) -> int:
    """Examples per step; refuses more than there are."""
    if config.batch_size is not None and config.batch_size > n_data:
        raise BadInput(
            f"batch_size is {config.batch_size}, more than the {n_data} training examples: choose at most "
            f"{n_data}"
        )
    return config.batch_size or min(DEFAULT_BATCH, n_data)
