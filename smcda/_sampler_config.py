"""How to sample: the options of a sampler, with their rules and what one choice means for the others."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smcda._options import check, option
from smcda._plugins import look_up, name_of
from smcda.errors import BadInput

SCHEDULES = "smcda.smc.schedules:SCHEDULES"
KERNELS = "smcda.smc.kernels:KERNELS"
TARGETS = "smcda.smc.target:TARGETS"
RESAMPLERS = "smcda.smc.resampling:RESAMPLERS"
CHOSEN = "chosen for the device"
ADAPTIVE = "adaptive"


@dataclass(frozen=True)
class SamplerConfig:
    """How to sample. What is left out depends on the scheme: `adaptive` chooses, others are as published.

    After construction only `batch_size` and `initial_batch` may still be None: they follow from the data
    (`for_data`). J is not published.
    """

    scheme: str | Callable[..., Any] = option(
        None,
        "data-annealing scheme",
        choices=SCHEDULES,
        extensible=True,
        unset=f"{ADAPTIVE}; full_batch for the built-in networks",
    )
    kernel: str | Any = option(
        "hmc", "move: Langevin (ld) or Hamiltonian (hmc) dynamics", choices=KERNELS, extensible=True
    )
    particles: int = option(None, "number of particles", symbol="J", at_least=2, unset="100; adaptive: 1000")
    iterations: int = option(
        None,
        "number of iterations; adaptive: at most so many moves",
        symbol="K",
        at_least=1,
        unset="200; adaptive: 5000",
    )
    step_size: float | None = option(
        None, "leapfrog step size", symbol="h", above=0, unset="0.002; adapted where adjusted"
    )
    leapfrog_steps: int = option(
        None,
        "leapfrog steps per move; where adjusted: at most",
        symbol="S",
        at_least=1,
        unset="1 for ld, 3 for hmc; 64 for adjusted hmc",
    )
    batch_size: int | None = option(
        None,
        "examples appended at a time; adaptive doubles them instead, from initial_batch",
        symbol="kappa",
        at_least=1,
        unset="500, adaptive: 100; all if there are fewer",
    )
    initial_batch: int | None = option(
        None, "examples in the first iteration", symbol="C", at_least=1, unset="batch_size"
    )
    target: str = option(
        None,
        "likelihood scaled to all data by N/M (as published), or plain",
        choices=TARGETS,
        unset="scaled; adaptive: plain",
    )
    adjusted: bool = option(
        False, "Metropolis-adjusted moves, with their step size adapted; adaptive: always"
    )
    resampling: str | Callable[..., Any] = option(
        None,
        "how ancestors are drawn",
        choices=RESAMPLERS,
        extensible=True,
        unset="multinomial; systematic where adjusted",
    )
    weight_target: str = option(
        "current",
        "target that weights the start of an unadjusted move, current (as published) or previous (exact)",
        choices=("current", "previous"),
    )
    weighting: str = option(
        "target",
        "weights of unadjusted moves: by the target (as published), by the likelihood without N/M (plain), "
        "or none, all particles counting equally",
        choices=("target", "plain", "none"),
    )
    ess_target: float = option(
        0.5,
        "share of J that the conditional ESS keeps when the target changes; adaptive only",
        above=0,
        at_most=0.99,
    )
    max_moves: int = option(50, "most moves per target; adaptive only", at_least=1)
    final_moves: int = option(5, "least number of moves at the last target; adaptive only", at_least=1)
    delta_entropy: float = option(
        1.0, "entropy change per iteration of smooth_data_annealing", symbol="dS", above=0
    )
    beta_restart: float = option(
        0.1, "beta of a minibatch that joins in smooth_data_annealing", above=0, at_most=1
    )
    refine_from: float = option(
        0.9,
        "share of K after which constant_to_refine, linear and automated use all data",
        above=0,
        at_most=1,
    )
    micro_batch: int | None = option(None, "examples that XLA evaluates at once", at_least=1, unset=CHOSEN)
    particle_chunk: int | None = option(None, "particles XLA evaluates at once", at_least=1, unset=CHOSEN)
    precision: str = option(
        "float32",
        "matrix products on a GPU: exact (float32), as exact by three in TF32 each (tf32x3), or rounded "
        "to TF32, which adds noise to the weights (tf32); CPUs always use float32",
        choices=("float32", "tf32x3", "tf32"),
    )
    devices: int | None = option(None, "devices for the particles", at_least=1, unset="all that divide J")

    def __post_init__(self) -> None:
        check(self)
        self._fill(scheme=ADAPTIVE)
        if self.is_adaptive and self.target == "scaled":
            raise BadInput(f"target is scaled, but scheme {ADAPTIVE} needs plain: leave it out")
        object.__setattr__(self, "adjusted", self.adjusted or self.is_adaptive)
        if self.adjusted and self.step_size is not None:
            raise BadInput(
                f"step_size is {self.step_size:g}, but adjusted moves adapt theirs: leave it out, "
                f"or choose an unadjusted scheme other than {ADAPTIVE}"
            )
        kernel = look_up(KERNELS, self.kernel)
        if not hasattr(kernel, "default_steps"):
            raise BadInput(f"kernel {name_of(self.kernel)} is not a smcda.smc.kernels.Kernel: make it one")
        if kernel.steps_are_fixed and self.leapfrog_steps not in (None, kernel.default_steps):
            raise BadInput(
                f"leapfrog_steps is {self.leapfrog_steps}, but kernel {name_of(self.kernel)} always makes "
                f"{kernel.default_steps}: leave it out, or use kernel hmc"
            )
        if self.adjusted and self.weighting != "target":
            raise BadInput(f"weighting is {self.weighting}, but adjusted moves need target: leave it out")
        if self.is_adaptive:
            self._fill(particles=1000, iterations=5000, target="plain")
        if self.adjusted:
            self._fill(leapfrog_steps=kernel.most_steps, resampling="systematic")
        else:
            self._fill(step_size=0.002, leapfrog_steps=kernel.default_steps, resampling="multinomial")
        self._fill(particles=100, iterations=200, target="scaled")

    def _fill(self, **defaults: Any) -> None:
        """Set what was left out."""
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def described(self) -> dict[str, Any]:
        """Every option by name, with objects of the user's own by theirs."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return values | {name: name_of(values[name]) for name in ("scheme", "kernel", "resampling")}

    @property
    def is_adaptive(self) -> bool:
        """Whether the scheme decides as it goes how many iterations there are."""
        return self.scheme == ADAPTIVE

    @property
    def batches(self) -> tuple[int, int]:
        """Kappa and C, once they are known (`for_data`)."""
        assert self.batch_size is not None and self.initial_batch is not None
        return self.batch_size, self.initial_batch

    def for_data(self, n_data: int) -> "SamplerConfig":
        """The same with batch sizes for so many training examples; refuses larger ones."""
        batch_size = self.batch_size or min(100 if self.is_adaptive else 500, n_data)
        first = self.initial_batch or batch_size
        filled = dataclasses.replace(self, batch_size=batch_size, initial_batch=first)
        sizes = {"batch_size (kappa)": batch_size, "initial_batch (C)": first}
        for name, size in sizes.items():
            if size > n_data:
                rule = f"more than the {n_data} training examples: choose at most {n_data}"
                raise BadInput(f"{name} is {size}, {rule}")
        return filled
