"""Every option of a run, once: name, default, rule and description.

The command line with its help, the checks at the door, the workflow's schema and the reference page in
``docs/`` follow from the dataclasses below. Nothing here imports JAX: choices that live in a table of the
package, such as ``SCHEDULES``, are looked up when they are first needed. A value that breaks a rule raises
`BadInput` with the value, the rule and what to do.
"""

import ast
import dataclasses
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from smcda._options import check, option, options
from smcda._plugins import is_reference, look_up, name_of
from smcda.errors import BadInput

FAN_IN: Literal["fan_in"] = "fan_in"
PriorScale = float | Literal["fan_in"]
DEFAULT_PRIOR_SCALE = 0.1
MAX_SEED = 2**32 - 1  # JAX would truncate a larger one

SCHEDULES = "smcda.smc.schedules:SCHEDULES"
KERNELS = "smcda.smc.kernels:KERNELS"
TARGETS = "smcda.smc.target:TARGETS"
RESAMPLERS = "smcda.smc.resampling:RESAMPLERS"
MODELS = "smcda.models.lenet:MODELS"
LIKELIHOODS = "smcda.models.likelihoods:LIKELIHOODS"
CHOSEN = "chosen for the device"
ADAPTIVE = "adaptive"
WORDS = {"true": True, "false": False, "null": None}
"""YAML's names of values that Python calls otherwise."""


def cache_dir() -> Path:
    """Where compiled programs are cached for the next run, unless the user chooses another place."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcda" / "compiled"


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


@dataclass(frozen=True)
class RunConfig:
    """What to run, on which data, and where the results go."""

    data: Path = option(
        MISSING, "dataset, an .npz with train_x, train_y and perhaps test_x, test_y", symbol="F.npz"
    )
    model: str = option(
        MISSING,
        "network; your own is a function (example_x, **options) that returns a Flax module or a Model",
        choices=MODELS,
        extensible=True,
    )
    out: Path = option(MISSING, "folder for the results", symbol="DIR")
    model_options: tuple[str, ...] = option((), "options of your own model", symbol="KEY=VALUE")
    likelihood: str | None = option(
        None,
        "what the outputs of your own Flax module mean",
        choices=LIKELIHOODS,
        unset="categorical for whole numbers",
    )
    seed: int = option(0, "seed of the data order and of every draw", at_least=0, at_most=MAX_SEED)
    sampler: SamplerConfig | None = None
    batch_norm: bool = option(False, "batch normalisation in fashion_cnn")
    prior_scale: PriorScale | None = option(
        None,
        f"prior standard deviation of every weight, or {FAN_IN} for 1/sqrt(fan_in) per layer",
        symbol="S",
        unset=f"{DEFAULT_PRIOR_SCALE:g}; your own Flax module: {FAN_IN}, your own Model: as it says",
        # Squares of these, and sums of such squares, are still numbers in float32.
        at_least=1e-6,
        at_most=1e6,
    )
    start: str = option(
        "prior",
        "where the first particles come from, the prior, or a network's usual initialisation (kernels "
        "truncated normal of variance 1/fan_in, biases zero)",
        choices=("prior", "lecun"),
    )
    start_seed: int | None = option(
        None, "seed of the first particles", at_least=0, at_most=MAX_SEED, unset="seed"
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
        if self.sampler is None:
            # The built-in networks are the published study's.
            scheme = "full_batch" if self.is_built_in else ADAPTIVE
            object.__setattr__(self, "sampler", SamplerConfig(scheme=scheme))
        if self.is_built_in:
            self._check_built_in()
        elif self.batch_norm:
            raise BadInput("batch_norm is an option of fashion_cnn: leave it out")
        else:
            parse_options(self.model_options)

    @property
    def is_built_in(self) -> bool:
        """Whether the model is one of the package's networks."""
        return not is_reference(self.model)

    def _check_built_in(self) -> None:
        assert self.sampler is not None
        if self.prior_scale is None:
            object.__setattr__(self, "prior_scale", DEFAULT_PRIOR_SCALE)
        for name in ("model_options", "likelihood"):
            if getattr(self, name):
                raise BadInput(f"{name} is for a model of your own, not for {self.model}: leave it out")
        if self.batch_norm and not hasattr(resolve_name(MODELS)[self.model], "batch_norm"):
            raise BadInput(f"batch_norm is not an option of model {self.model}: leave it out")
        batch, first = self.sampler.batch_size, self.sampler.initial_batch
        if self.batch_norm and batch and first and first % batch:
            raise BadInput(
                f"initial_batch is {first}, but with batch_norm it must be a multiple of batch_size "
                f"({batch}), because statistics are those of a minibatch"
            )
        if self.batch_norm and self.sampler.is_adaptive:
            raise BadInput(
                f"batch_norm can't be combined with scheme {ADAPTIVE}, whose target must not depend on how "
                "the data are cut into minibatches: leave one out"
            )

    @property
    def checkpoints(self) -> Path:
        """The folder for checkpoints: beside `out` rather than inside, which a workflow may clear."""
        return self.checkpoint_dir or checkpoints_beside(self.out)


def checkpoints_beside(out: Path) -> Path:
    """The folder for checkpoints of results in `out`."""
    out = out.resolve()
    return out.parent / f"{out.name}.checkpoints"


def check_run_options(**values: Any) -> None:
    """Refuse values of options of `RunConfig` that break their rules."""
    known = {each.name: each for each in options(RunConfig)}
    for name, value in values.items():
        known[name].check(value)


def parse_options(texts: tuple[str, ...]) -> dict[str, Any]:
    """``("width=32", "activation=relu")`` as keyword arguments; values are Python literals, or else text."""
    parsed = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise BadInput(f"model_options {text!r} is not of the form key=value, with a name as key")
        try:
            parsed[name] = WORDS[value] if value in WORDS else ast.literal_eval(value)
        except (ValueError, SyntaxError):
            parsed[name] = value
    return parsed


@dataclass(frozen=True)
class ProcessConfig:
    """How the process works; set before JAX starts, and without influence on a result beyond rounding."""

    quiet: bool = option(False, "no progress")
    device: str = option("auto", "device", choices=("auto", "cpu", "gpu"))
    threads: int | None = option(None, "CPU threads", at_least=1, unset="all")
    compilation_cache: Path = option(cache_dir(), "folder that caches compiled programs", symbol="DIR")

    def __post_init__(self) -> None:
        check(self)
