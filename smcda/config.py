"""Every option of a run, once: name, default, rule and description.

The command line with its help, the checks at the door, the workflow's schema and the reference page in
``docs/`` follow from the dataclasses below and from `SamplerConfig`, which has a module of its own. Nothing
here imports JAX: choices that live in a table of the package, such as ``SCHEDULES``, are looked up when they
are first needed. A value that breaks a rule raises `BadInput` with the value, the rule and what to do.
"""

import ast
import os
from dataclasses import MISSING, dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from smcda._options import check, option, options
from smcda._plugins import is_reference
from smcda._sampler_config import ADAPTIVE as ADAPTIVE
from smcda._sampler_config import SamplerConfig as SamplerConfig
from smcda.errors import BadInput

FAN_IN: Literal["fan_in"] = "fan_in"
HIERARCHICAL: Literal["hierarchical"] = "hierarchical"
PriorScale = float | str
"""A number, `fan_in`, a multiple of it such as `2*fan_in`, or `hierarchical`."""
DEFAULT_PRIOR_SCALE = 0.1
MAX_SEED = 2**32 - 1  # JAX would truncate a larger one

MODELS = "smcda.models.lenet:MODELS"
LIKELIHOODS = "smcda.models.likelihoods:LIKELIHOODS"
WORDS = {"true": True, "false": False, "null": None}
"""YAML's names of values that Python calls otherwise."""


def cache_dir() -> Path:
    """Where compiled programs are cached for the next run, unless the user chooses another place."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcda" / "compiled"


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
    ood: Path | None = option(
        None,
        "dataset whose test_x are foreign: how well uncertainty tells them from the test examples (AUROC)",
        symbol="F.npz",
        unset="none",
    )
    seed: int = option(0, "seed of the data order and of every draw", at_least=0, at_most=MAX_SEED)
    sampler: SamplerConfig | None = None
    batch_norm: bool = option(False, "batch normalisation in fashion_cnn")
    prior_scale: float | Literal["fan_in", "hierarchical"] | str | None = option(
        None,
        f"prior standard deviation of every weight; {FAN_IN} for 1/sqrt(fan_in) per layer, 2*{FAN_IN} for "
        f"twice that, or any other multiple; {HIERARCHICAL} to learn one scale per layer",
        symbol="S",
        unset=f"{DEFAULT_PRIOR_SCALE:g}; your own Flax module: {FAN_IN}, your own Model: as it says",
        multiples_of=FAN_IN,
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
        if self.prior_scale == HIERARCHICAL and self.start != "prior":
            raise BadInput(
                f"start is {self.start}, but with prior_scale {HIERARCHICAL} weights are drawn with their "
                "scales: leave it out"
            )
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


def gain_of(prior_scale: str) -> float:
    """The number before `fan_in`: 2 of `2*fan_in`, 1 of `fan_in` itself."""
    number, _, _ = prior_scale.rpartition("*")
    return float(number or 1)


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
