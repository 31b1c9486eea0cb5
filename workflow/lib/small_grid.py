"""The small-data study's runs: which there are, and how each is called.

A run's command depends on nothing but its own cell, so that a grid may grow without making any again.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from pydantic import ValidationError

from lib.config import Config, ConfigError, describe
from lib.datasets import NETWORKS
from lib.fields import SAMPLER_KEYS
from lib.resources import SECONDS_PER_EVALUATION, request_for
from lib.small_config import FOREIGN, SMC, SmallData
from smcda.baselines.config import BASELINES, batch_size_for
from smcda.config import RunConfig, SamplerConfig
from smcda.errors import BadInput
from smcda.smc.cost import gradient_evaluations

NAME = "small_data"
OF_THE_GRID = {"kind", "particles", "prior_scales", "step_size_at"}


class Cell(NamedTuple):
    """What names a run; the prior scale is empty where a method has no prior."""

    dataset: str
    n_train: int
    method: str
    prior_scale: float | str
    particles: int
    seed: int

    @property
    def path(self) -> str:
        """Its folder below that of all runs. A star would stand for names of files."""
        prior = str(self.prior_scale).replace("*", "x") or "none"
        return f"{self.dataset}/n-{self.n_train}/{self.method}/{prior}/j-{self.particles}/seed-{self.seed}"


@dataclass(frozen=True)
class SmallStudy:
    """A checked grid, and the folder of its results."""

    folder: str
    grid: SmallData

    @cached_property
    def by_path(self) -> dict[str, Cell]:
        """Every run that the grid selects, by its folder."""
        return {cell.path: cell for cell in self.cells()}

    def cells(self) -> Iterator[Cell]:
        """Every run that the grid selects, small data first."""
        grid = self.grid
        for n_train, dataset, name, seed in product(
            grid.n_train, grid.datasets, grid.only or grid.methods, grid.seeds
        ):
            method = grid.methods[name]
            priors = getattr(method, "prior_scales", [""])
            for prior, particles in product(priors, method.particles):
                wanted = not prior or prior in (grid.prior_scales or priors)
                if wanted and particles in (grid.particles or method.particles):
                    yield Cell(dataset, n_train, name, prior, particles, seed)

    def pattern(self, of_smc: bool) -> str:
        """Folders of the runs, selected or not, of our sampler, or of baselines: a regular expression."""
        methods = [name for name, each in self.grid.methods.items() if (each.kind == SMC) == of_smc]
        return f"[^/]+/[^/]+/({'|'.join(map(re.escape, methods)) or 'none'})/[^/]+/[^/]+/[^/]+"

    def images(self, path: str, foreign: bool = False) -> str:
        """The data of a run, or those whose test images are foreign to it."""
        cell = self.by_path[path]
        return f"{self.folder}/data/{FOREIGN[cell.dataset] if foreign else cell.dataset}-{cell.n_train}.npz"

    def options(self, cell: Cell) -> dict[str, Any]:
        """What a run sets, by the names of the package's options."""
        method = self.grid.methods[cell.method]
        given = method.model_dump(exclude_unset=True, exclude=OF_THE_GRID)
        if method.kind == SMC:
            given = {"scheme": method.scheme} | given
            if method.step_size_at and method.step_size:
                scaled = method.step_size * math.sqrt(method.step_size_at / cell.n_train)
                given["step_size"] = float(f"{scaled:.4g}")
        given |= {"particles": cell.particles} | (
            {"prior_scale": cell.prior_scale} if cell.prior_scale else {}
        )
        return {name: value for name, value in given.items() if value is not None}

    def command(self, path: str) -> str:
        """The arguments of `smcda` but for files and where it runs."""
        cell = self.by_path[path]
        kind = self.grid.methods[cell.method].kind
        words = ["run" if kind == SMC else f"baseline {kind}", f"--model {NETWORKS[cell.dataset]}"]
        for name, value in (self.options(cell) | {"seed": cell.seed}).items():
            for each in value if isinstance(value, list) else [value]:
                if each is not False:
                    words.append(f"--{name.replace('_', '-')}" + f" {quote(str(each))}" * (each is not True))
        return " ".join(words)

    def check(self) -> None:
        """Refuse a grid without runs, or a run that the package would refuse."""
        if self.grid.methods and not any(self.cells()):
            raise BadInput(
                "no method has any of the particles and prior_scales that are selected: give others, or null"
            )
        for cell in self.cells():
            try:
                self._evaluations(cell)
            except BadInput as error:
                raise BadInput(f"methods/{cell.method}, n_train {cell.n_train}: {error}") from None

    def _evaluations(self, cell: Cell) -> float:
        """Gradient evaluations that a run is expected to need, its search included."""
        given, n = self.options(cell), cell.n_train
        kind = self.grid.methods[cell.method].kind
        if kind == SMC:
            own = {name: given.pop(name) for name in SAMPLER_KEYS if name in given}
            sampler = SamplerConfig(scheme=given.pop("scheme"), kernel=given.pop("kernel", "hmc"), **own)
            RunConfig(
                data=Path("data"), out=Path("out"), model=NETWORKS[cell.dataset], sampler=sampler, **given
            )
            return gradient_evaluations(sampler.for_data(n), n)
        given.pop("prior_scale", None)
        given = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        config: Any = BASELINES[kind](**given)
        batch_size_for(config, n)
        per_epoch = config.particles * n
        candidates = len(getattr(config, config.candidates_of)) if config.validation else 0
        if kind == "deep_ensemble":
            return config.epochs * (per_epoch + candidates * config.search_particles * n)
        return config.cycle_epochs * (per_epoch + candidates * config.chains * n)

    def request(self, path: str, attempt: int) -> dict[str, int]:
        """What a run asks a scheduler for, as a run of the published study does."""
        device, cell = self.grid.device, self.by_path[path]
        each = self.grid.seconds_per_evaluation or SECONDS_PER_EVALUATION[device]
        return request_for(device, each * self._evaluations(cell), cell.particles, attempt)

    def device_options(self) -> str:
        """Where a run takes place; on a CPU it has one core."""
        return f"--device {self.grid.device}" + " --threads 1" * (self.grid.device == "cpu")


def resolve_small(config: dict[str, Any]) -> SmallStudy:
    """Check the config's small-data study. Its results do not depend on the scale."""
    try:
        model = Config.model_validate(config)
    except ValidationError as error:
        raise ConfigError(" ".join(describe(error).split())) from None
    study = SmallStudy(f"{model.output_dir}/{NAME}", model.small_data)
    if NAME in (model.study, model.scale):
        raise ConfigError(
            f"study is {NAME}, which is the folder of the small-data study: choose another name"
        )
    try:
        study.check()
    except BadInput as error:
        raise ConfigError(f"{NAME}: {error}") from None
    return study
