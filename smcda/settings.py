"""The settings of a run, checked once at the door.

Defaults are the published ones (J is not published; see the README). Inside the package values are
trusted, so everything a user can get wrong about them is said here: the value, the rule it breaks
and what to do.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from smcda.errors import BadInput
from smcda.smc.kernels import KERNELS
from smcda.smc.resampling import RESAMPLERS
from smcda.smc.schedules import SCHEMES
from smcda.smc.schedules.fixed import Annealing

WEIGHT_TARGETS = ("current", "previous")


@dataclass(frozen=True)
class Settings:
    """How to sample. `leapfrog_steps` None means the kernel's own; `initial_batch` None means kappa."""

    scheme: str = "full_batch"
    kernel: str = "hmc"
    particles: int = 100
    iterations: int = 200
    step_size: float = 0.002
    leapfrog_steps: int | None = None
    batch_size: int = 500
    initial_batch: int | None = None
    resampling: str = "multinomial"
    weight_target: str = "current"
    delta_entropy: float = 1.0
    beta_restart: float = 0.1
    refine_from: float = 0.9
    micro_batch: int | None = None
    particle_chunk: int | None = None
    devices: int | None = None

    def __post_init__(self) -> None:
        """Check every rule that does not depend on the data."""
        one_of("scheme", self.scheme, SCHEMES)
        one_of("kernel", self.kernel, KERNELS)
        one_of("resampling", self.resampling, RESAMPLERS)
        one_of("weight_target", self.weight_target, WEIGHT_TARGETS)
        self._at_least("particles", 2, "one particle has nothing to be weighed against")
        self._at_least("iterations", 1, "a run needs an iteration")
        self._at_least("batch_size", 1, "a minibatch needs an example")
        for name in ("leapfrog_steps", "initial_batch", "micro_batch", "particle_chunk", "devices"):
            if getattr(self, name) is not None:
                self._at_least(name, 1, "leave it out to have it chosen")
        self._between("step_size", 0, float("inf"), "0.002 is the published value")
        self._between("delta_entropy", 0, float("inf"), "1 is the published value")
        self._between("beta_restart", 0, 1, "0.1 is the published value")
        self._between("refine_from", 0, 1, "0.9 is the published value")
        kernel = KERNELS[self.kernel]
        if kernel.steps_are_fixed and self.sweeps != kernel.default_steps:
            raise BadInput(
                f"leapfrog_steps is {self.leapfrog_steps}, but kernel {self.kernel} always makes "
                f"{kernel.default_steps}: leave it out, or use kernel hmc"
            )

    @property
    def sweeps(self) -> int:
        """S, the gradient sweeps of one move."""
        return self.leapfrog_steps or KERNELS[self.kernel].default_steps

    @property
    def first_batch(self) -> int:
        """C, the number of examples that a run starts with."""
        return self.initial_batch or self.batch_size

    def annealing(self, n_data: int) -> Annealing:
        """What the scheme is told, once the number N of training examples is known."""
        for name, symbol, value in (
            ("batch_size", "kappa", self.batch_size),
            ("initial_batch", "C", self.first_batch),
        ):
            if value > n_data:
                raise BadInput(
                    f"{name} ({symbol}) is {value}, more than the {n_data} training examples: "
                    f"choose at most {n_data}"
                )
        return Annealing(
            self.iterations,
            n_data,
            self.batch_size,
            self.first_batch,
            self.refine_from,
            self.delta_entropy,
            self.beta_restart,
        )

    def _at_least(self, name: str, least: int, why: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadInput(f"{name} is {value!r}, but must be a whole number of at least {least}: {why}")

    def _between(self, name: str, low: float, high: float, why: str) -> None:
        value = getattr(self, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Judged as the sampler will see it: 1e39 is not finite in float32, and 1e-50 is zero.
        with np.errstate(over="ignore"):
            seen = np.float32(value) if number else np.float32("nan")
        if not np.isfinite(seen) or not low < seen <= high:
            upper = "" if high == float("inf") else f" and at most {high:g}"
            raise BadInput(f"{name} is {value!r}, but must be a finite number above {low:g}{upper}: {why}")


def one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a name that is not in a table of choices."""
    if value not in allowed:
        raise BadInput(f"{name} {value!r} is unknown: choose one of {', '.join(allowed)}")
