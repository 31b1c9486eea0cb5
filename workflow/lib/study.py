"""A study: the runs that the config asks for, and what each rule needs to know of them.

Rules receive exactly the settings they use, as params. Snakemake compares these with the ones a file was
built with, so a changed setting rebuilds what depends on it and nothing else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import ValidationError

from lib.config import NETWORKS, RUN_KEYS, SAMPLER_KEYS, Config, ConfigError, Scale, describe
from smcda.config import ADAPTIVE, RunConfig, SamplerConfig
from smcda.errors import BadInput
from smcda.models.lenet import MODELS
from smcda.smc.kernels import KERNELS

IMAGES = {"full": (60_000, 10_000), "bundled": (2_000, 1_000)}
"""Training and test images of a source."""

GRID = ("datasets", "schemes", "kernels", "seeds")
DATA_OPTIONS = {
    "mirror_dir": "--mirror",
    "download_cache": "--cache",
    "train_images": "--train",
    "test_images": "--test",
}
"""Keys that are options of `smcda data`. The first two are of the whole file, not of a scale."""

REFINING = {"constant_to_refine", "linear", "automated"}
SMOOTH = {"smooth_data_annealing"}
KNOWN_SCHEMES = REFINING | SMOOTH | {"constant", "full_batch", ADAPTIVE}
READ_BY = {"refine_from": REFINING, "delta_entropy": SMOOTH, "beta_restart": SMOOTH}
READ_BY |= dict.fromkeys(("ess_target", "max_moves", "final_moves"), {ADAPTIVE})
# `adaptive` chooses everything else for itself: a scale's values are those of the published schemes.
SHARED = {"particles", "prior_scale", "evaluate_every"}
READ_BY |= {name: KNOWN_SCHEMES - {ADAPTIVE} for name in RUN_KEYS if name not in SHARED | READ_BY.keys()}
"""Which of the known schemes read an option. Any other scheme is given every option."""


@dataclass(frozen=True)
class Study:
    """A grid of runs: one scale of the config, or one of its ablations, complete and checked."""

    scale: str
    folder: str
    settings: dict[str, Any]
    ablation: str = ""

    @property
    def path(self) -> str:
        """Where its runs lie below the scale's folder."""
        return f"ablations/{self.ablation}" if self.ablation else "runs"

    def ablations(self) -> list["Study"]:
        """Every ablation of this scale as a study of its own."""
        own = self.settings | {"schemes": ["constant"], "ablations": {}}
        return [
            replace(self, settings=own | changes, ablation=name)
            for name, changes in self.settings["ablations"].items()
        ]

    def at(self, path: str) -> "Study":
        """Find the study, this one or an ablation, whose runs lie at a path."""
        return self if path == self.path else next(each for each in self.ablations() if each.path == path)

    def runs(self, of_scheme: str | None = None) -> list[dict[str, Any]]:
        """Every dataset x scheme x kernel x seed, in the order of the config; or those of one scheme."""
        names = ("dataset", "scheme", "kernel", "seed")
        runs = [dict(zip(names, run, strict=True)) for run in product(*(self.settings[n] for n in GRID))]
        about = {"ablation": self.ablation} if self.ablation else {}
        return [run | about for run in runs if of_scheme in (None, run["scheme"])]

    def n_images(self) -> tuple[int, int]:
        """Number of training and test images."""
        n_train, n_test = IMAGES[self.settings["source"]]
        return self.settings["train_images"] or n_train, self.settings["test_images"] or n_test

    def settings_read_by(self, dataset: str, scheme: str, kernel: str) -> dict[str, Any]:
        """The options that such a run reads and that have a value."""
        unread = {name for name, readers in READ_BY.items() if scheme in KNOWN_SCHEMES - readers}
        if KERNELS[kernel].steps_are_fixed:
            unread.add("leapfrog_steps")
        if not hasattr(MODELS[NETWORKS[dataset]], "batch_norm"):
            unread.add("batch_norm")
        given = {name: self.settings[name] for name in RUN_KEYS if name not in unread}
        return {name: value for name, value in given.items() if value is not None}

    def run_config(self, dataset: str, scheme: str, kernel: str, **more: Any) -> RunConfig:
        """The package's config of such a run; `more` are its seed and paths."""
        read = self.settings_read_by(dataset, scheme, kernel)
        sampler = {name: read.pop(name) for name in SAMPLER_KEYS if name in read}
        return RunConfig(
            network=NETWORKS[dataset],
            sampler=SamplerConfig(scheme=scheme, kernel=kernel, **sampler),
            **{"data": Path("data"), "out": Path("out")} | read | more,
        )

    def run_options(self, dataset: str, scheme: str, kernel: str) -> str:
        """The same as options of `smcda run`."""
        words = []
        for name, value in self.settings_read_by(dataset, scheme, kernel).items():
            if value is not False:
                words += [f"--{name.replace('_', '-')}"] + [str(value)] * (value is not True)
        return " ".join(words)

    def device_options(self) -> str:
        """Options of `smcda run` that say where it runs; on a CPU each run has one core."""
        device = self.settings["device"]
        return f"--device {device}" + " --threads 1" * (device == "cpu")

    def data_settings(self) -> dict[str, Any]:
        """Where the images come from and how many are used; without what is not read or not set."""
        unread = set() if self.settings["source"] == "full" else {"mirror_dir", "download_cache"}
        if self.settings["mirror_dir"]:
            unread.add("download_cache")
        given = {name: self.settings[name] for name in ("source", *DATA_OPTIONS) if name not in unread}
        return {name: value for name, value in given.items() if value is not None}

    def data_options(self) -> str:
        """The same as options of `smcda data`."""
        given = self.data_settings()
        words = [f"{option} {quote(str(given[key]))}" for key, option in DATA_OPTIONS.items() if key in given]
        return " ".join([*words, *["--bundled"] * (given["source"] == "bundled")])

    def decisive(self, *cell: str) -> dict[str, Any]:
        """All settings that the results of a cell depend on."""
        return self.data_settings() | {"device": self.settings["device"]} | self.settings_read_by(*cell)

    def record(self, numerics: str) -> dict[str, Any]:
        """What all results depend on: the grid, the settings that decide some cell, the sampler's code."""
        record = {name: self.settings[name] for name in GRID} | {"numerics": numerics}
        for cell in self._cells():
            record |= self.decisive(*cell)
        return record

    def conflicts(self, record: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Settings, recorded and ours, that would leave out or change a run of the recorded study."""
        unset = Scale().model_dump() | dict.fromkeys(DATA_OPTIONS)
        recorded = replace(self, settings=unset | record)
        pairs = [(recorded.settings[name], self.settings[name], name) for name in GRID]
        found = {name: (theirs, ours) for theirs, ours, name in pairs if not set(theirs) <= set(ours)}
        for cell in recorded._cells():
            theirs, ours = recorded.decisive(*cell), self.decisive(*cell)
            for name in theirs | ours:
                if theirs.get(name) != ours.get(name):
                    found[name] = (theirs.get(name), ours.get(name))
        return found

    def _cells(self) -> Iterator[tuple[str, str, str]]:
        """Every dataset x scheme x kernel."""
        return product(*(self.settings[name] for name in GRID[:-1]))

    def check(self) -> None:
        """Refuse what breaks a rule that involves several settings, or asks for more data than there are."""
        source = self.settings["source"]
        for name, most in zip(("train_images", "test_images"), IMAGES[source], strict=True):
            if (self.settings[name] or 0) > most:
                raise BadInput(
                    f"{name} is {self.settings[name]}, but source {source} has {most}: choose at most {most}"
                )
        for cell in self._cells():
            self.run_config(*cell).sampler.for_data(self.n_images()[0])


def resolve(config: dict[str, Any]) -> Study:
    """Check the config, choose its scale and let top-level keys overrule it.

    Defaults of the keys that belong to no scale are written into `config`, where rules look them up.
    """
    try:
        model = Config.model_validate(config)
    except ValidationError as error:
        raise ConfigError(" ".join(describe(error).split())) from None
    if model.scale not in model.scales:
        raise ConfigError(f"scale is {model.scale!r}, but must be one of {', '.join(model.scales)}")
    config.update(model.model_dump(exclude={*Scale.model_fields, "scales"}))
    chosen = model.scales[model.scale].model_dump(exclude_unset=True)
    overrides = model.model_dump(exclude_unset=True, include=set(Scale.model_fields))
    settings = Scale().model_dump() | chosen | overrides
    settings |= {name: config[name] for name in ("mirror_dir", "download_cache")}
    study = Study(model.scale, f"{model.output_dir}/{model.study or model.scale}", settings)
    for each in (study, *study.ablations()):
        try:
            each.check()
        except BadInput as error:
            where = f"{each.path}: " if each.ablation else ""
            raise ConfigError(f"{where}{error}") from None
    return study


def protect(studies: list[Study], file: Path) -> dict[str, Any]:
    """Refuse to change or leave out runs of the finished studies that a file records; return the records."""
    try:
        records = json.loads(file.read_text()) if file.exists() else {}
        requested, found = {study.path: study for study in studies}, []
        for path, record in records.items():
            if path not in requested:
                found += [f"{path} is recorded, not requested"]
                continue
            where = f"{path}: " if requested[path].ablation else ""
            for name, (theirs, ours) in requested[path].conflicts(record).items():
                found += [f"{where}{name} is {theirs} there, {ours} is requested"]
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        advice = "restore it, or give study=NAME or replace=true"
        raise ConfigError(f"{file} can't be read ({error!r}): {advice}") from None
    if found:
        raise ConfigError(
            f"{file.parent} holds a finished study of other settings ({'; '.join(found)}): "
            "give the same ones (a grid may grow), study=NAME to build beside it, or replace=true to redo it"
        )
    return records
