"""Every option of a run, once: name, default, rule and description.

The command line with its help, the checks at the door, the workflow's schema and the reference page in
``docs/`` follow from the dataclasses below. Nothing here imports JAX: choices that live in a table of the
package, such as ``SCHEDULES``, are looked up when they are first needed. A value that breaks a rule raises
`BadInput` with the value, the rule and what to do.
"""

import dataclasses
import os
from dataclasses import MISSING, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from smcda._options import check, option
from smcda.errors import BadInput

FAN_IN: Literal["fan_in"] = "fan_in"
PriorScale = float | Literal["fan_in"]
DEFAULT_PRIOR_SCALE = 0.1
MAX_SEED = 2**32 - 1  # JAX would truncate a larger one

SCHEDULES = "smcda.smc.schedules:SCHEDULES"
KERNELS = "smcda.smc.kernels:KERNELS"
RESAMPLERS = "smcda.smc.resampling:RESAMPLERS"
MODELS = "smcda.models.lenet:MODELS"
CHOSEN = "chosen for the device"


def cache_dir() -> Path:
    """Where compiled programs are cached for the next run, unless the user chooses another place."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcda" / "compiled"


@dataclass(frozen=True)
class SamplerConfig:
    """How to sample. Defaults are the published values; J is not published."""

    scheme: str = option("full_batch", "data-annealing scheme", choices=SCHEDULES)
    kernel: str = option("hmc", "move: Langevin (ld) or Hamiltonian (hmc) dynamics", choices=KERNELS)
    particles: int = option(100, "number of particles", symbol="J", at_least=2)
    iterations: int = option(200, "number of iterations", symbol="K", at_least=1)
    step_size: float = option(0.002, "leapfrog step size", symbol="h", above=0)
    leapfrog_steps: int | None = option(
        None, "leapfrog steps per move", symbol="S", at_least=1, unset="1 for ld, 3 for hmc"
    )
    batch_size: int = option(500, "examples appended at a time", symbol="kappa", at_least=1)
    initial_batch: int | None = option(
        None, "examples in the first iteration", symbol="C", at_least=1, unset="batch_size"
    )
    resampling: str = option("multinomial", "how ancestors are drawn", choices=RESAMPLERS)
    weight_target: str = option(
        "current",
        "target that weights the start of a move, current (as published) or previous (exact)",
        choices=("current", "previous"),
    )
    delta_entropy: float = option(1.0, "entropy change of SDA", symbol="dS", above=0)
    beta_restart: float = option(0.1, "beta of a joining minibatch in SDA", above=0, at_most=1)
    refine_from: float = option(0.9, "share of K before all data are used", above=0, at_most=1)
    micro_batch: int | None = option(None, "examples that XLA evaluates at once", at_least=1, unset=CHOSEN)
    particle_chunk: int | None = option(None, "particles XLA evaluates at once", at_least=1, unset=CHOSEN)
    devices: int | None = option(None, "devices for the particles", at_least=1, unset="all that divide J")

    def __post_init__(self) -> None:
        check(self)
        kernel = resolve_name(KERNELS)[self.kernel]
        if kernel.steps_are_fixed and self.n_leapfrog_steps != kernel.default_steps:
            raise BadInput(
                f"leapfrog_steps is {self.leapfrog_steps}, but kernel {self.kernel} always makes "
                f"{kernel.default_steps}: leave it out, or use kernel hmc"
            )

    @property
    def n_leapfrog_steps(self) -> int:
        """S, the kernel's own number unless one was chosen."""
        return self.leapfrog_steps or resolve_name(KERNELS)[self.kernel].default_steps

    @property
    def first_batch(self) -> int:
        """C, the number of examples that a run starts with."""
        return self.initial_batch or self.batch_size

    def check_data(self, n_data: int) -> None:
        """Refuse batches larger than the training data."""
        sizes = {"batch_size (kappa)": self.batch_size, "initial_batch (C)": self.first_batch}
        for name, size in sizes.items():
            if size > n_data:
                rule = f"more than the {n_data} training examples: choose at most {n_data}"
                raise BadInput(f"{name} is {size}, {rule}")

    def resolved(self) -> dict[str, Any]:
        """All options by name, with None replaced where the value follows from the others."""
        chosen = {"leapfrog_steps": self.n_leapfrog_steps, "initial_batch": self.first_batch}
        return dataclasses.asdict(self) | chosen


@dataclass(frozen=True)
class RunConfig:
    """What to run, on which data, and where the results go."""

    data: Path = option(MISSING, "dataset, an .npz as `smcda data` writes it", symbol="F.npz")
    network: str = option(MISSING, "network", choices=MODELS)
    out: Path = option(MISSING, "folder for the results", symbol="DIR")
    seed: int = option(0, "seed of the data order and of every draw", at_least=0, at_most=MAX_SEED)
    sampler: SamplerConfig = dataclasses.field(default_factory=SamplerConfig)
    batch_norm: bool = option(False, "batch normalisation in fashion_cnn")
    prior_scale: PriorScale = option(
        DEFAULT_PRIOR_SCALE,
        f"prior standard deviation of every weight, or {FAN_IN} for 1/sqrt(fan_in) per layer",
        symbol="S",
        # Squares of these, and sums of such squares, are still numbers in float32.
        at_least=1e-6,
        at_most=1e6,
    )
    evaluate_every: int = option(10, "iterations between test evaluations", at_least=1)
    save_posterior: bool = option(False, "also write posterior.npz")
    overwrite: bool = option(False, "replace a finished run in the output folder")
    checkpoint_dir: Path | None = option(
        None, "folder for checkpoints until the run is done", symbol="DIR", unset="beside the output folder"
    )
    checkpoint_every: float = option(
        300.0, "seconds between checkpoints; 0 saves one only when a signal stops the run", at_least=0
    )
    gradients: str = option(
        "auto",
        "gradient code, compiled C++ (native, CPU only), XLA's own, or native where available",
        choices=("auto", "native", "xla"),
    )

    def __post_init__(self) -> None:
        check(self)
        if self.batch_norm and not hasattr(resolve_name(MODELS)[self.network], "batch_norm"):
            raise BadInput(f"batch_norm is not an option of network {self.network}: leave it out")
        if self.batch_norm and self.sampler.first_batch % self.sampler.batch_size:
            raise BadInput(
                f"initial_batch is {self.sampler.first_batch}, but with batch_norm it must be a multiple of "
                f"batch_size ({self.sampler.batch_size}), because statistics are those of a minibatch"
            )

    @property
    def checkpoints(self) -> Path:
        """The folder for checkpoints: beside `out` rather than inside, which a workflow may clear."""
        out = self.out.resolve()
        return self.checkpoint_dir or out.parent / f"{out.name}.checkpoints"


@dataclass(frozen=True)
class ProcessConfig:
    """How the process works; set before JAX starts, and without influence on a result beyond rounding."""

    quiet: bool = option(False, "no progress")
    device: str = option("auto", "device", choices=("auto", "cpu", "gpu"))
    threads: int | None = option(None, "CPU threads", at_least=1, unset="all")
    compilation_cache: Path = option(cache_dir(), "folder that caches compiled programs", symbol="DIR")

    def __post_init__(self) -> None:
        check(self)
