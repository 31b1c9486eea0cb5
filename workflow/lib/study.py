"""A study: the runs that the config asks for, and what each rule needs to know of them.

Rules receive exactly the settings they use, as params. Snakemake compares these with the ones a file was
built with, so a changed setting rebuilds what depends on it and nothing else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import ValidationError

from lib.config import Config, ConfigError, Scale, describe
from lib.datasets import IMAGES, OF_BUILT_IN_NETWORKS, PUBLISHED, Dataset
from lib.fields import RUN_KEYS, SAMPLER_KEYS
from smcda.config import ADAPTIVE, RunConfig, SamplerConfig
from smcda.errors import BadInput
from smcda.models.lenet import MODELS
from smcda.smc.kernels import KERNELS

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
SHARED = {"particles", "prior_scale", "start", "start_seed", "evaluate_every"}
READ_BY |= {name: KNOWN_SCHEMES - {ADAPTIVE} for name in RUN_KEYS if name not in SHARED | READ_BY.keys()}
"""Which of the known schemes read an option. Any other scheme is given every option."""


@dataclass(frozen=True)
class Study:
    """A grid of runs: one scale of the config, or one of its ablations, complete and checked.

    `settings` are the same for all datasets, but for what `entries` of the config say of some.
    """

    scale: str
    folder: str
    settings: dict[str, Any]
    ablation: str = ""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where its runs lie below the scale's folder."""
        return f"ablations/{self.ablation}" if self.ablation else "runs"

    def ablations(self) -> list["Study"]:
        """Every ablation of this scale as a study of its own."""
        own = self.settings | {"schemes": ["constant"], "ablations": {}}
        found = []
        for name, changes in self.settings["ablations"].items():
            of_datasets = changes.get("datasets", {})
            # What an ablation changes, it changes for every dataset; what it says of one dataset comes first.
            entries = {
                dataset: {key: changes.get(key, value) for key, value in entry.items()}
                for dataset, entry in self.entries.items()
            }
            entries = merged(entries, of_datasets)
            chosen = {"datasets": list(of_datasets) or own["datasets"]}
            found.append(replace(self, settings=own | changes | chosen, ablation=name, entries=entries))
        return found

    def dataset(self, name: str) -> Dataset:
        """A dataset, with what the config says of it."""
        return Dataset(name, self.entries.get(name, {}))

    def datasets(self) -> list[Dataset]:
        """Those of the grid."""
        return [self.dataset(name) for name in self.settings["datasets"]]

    def settings_of(self, dataset: str) -> dict[str, Any]:
        """All settings, with what a dataset overrides."""
        return self.settings | self.dataset(dataset).overrides

    def at(self, path: str) -> "Study":
        """Find the study, this one or an ablation, whose runs lie at a path."""
        return self if path == self.path else next(each for each in self.ablations() if each.path == path)

    def runs(self, of_scheme: str | None = None) -> list[dict[str, Any]]:
        """Every dataset x scheme x kernel x seed, in the order of the config; or those of one scheme."""
        names = ("dataset", "scheme", "kernel", "seed")
        runs = [dict(zip(names, run, strict=True)) for run in product(*(self.settings[n] for n in GRID))]
        about = {"ablation": self.ablation} if self.ablation else {}
        return [run | about for run in runs if of_scheme in (None, run["scheme"])]

    def n_examples(self, dataset: str) -> tuple[int, int]:
        """Number of training and test examples."""
        given = (self.settings[name] for name in ("source", "train_images", "test_images"))
        return self.dataset(dataset).n_examples(*given)

    def datasets_as_published(self, published: dict[str, Any]) -> list[str]:
        """Datasets of the published study that are run as they were there; what is not set has its values."""
        found = []
        for own in self.datasets():
            settings = self.settings_of(own.name)
            if own.name not in PUBLISHED or own.about:
                continue
            sizes = self.n_examples(own.name) == (published["n_train"], published["n_test"])
            if sizes and all(
                settings[name] in (None, published[name]) for name in published.keys() & settings
            ):
                found.append(own.name)
        return found

    def settings_read_by(self, dataset: str, scheme: str, kernel: str) -> dict[str, Any]:
        """The options that such a run reads and that have a value."""
        unread = {name for name, readers in READ_BY.items() if scheme in KNOWN_SCHEMES - readers}
        if KERNELS[kernel].steps_are_fixed:
            unread.add("leapfrog_steps")
        own, settings = self.dataset(dataset), self.settings_of(dataset)
        if own.has_own_model:
            unread |= OF_BUILT_IN_NETWORKS - own.overrides.keys()
        elif "batch_norm" not in own.overrides and not hasattr(MODELS.get(own.model), "batch_norm"):
            unread.add("batch_norm")
        given = {name: settings[name] for name in RUN_KEYS if name not in unread}
        return {name: value for name, value in given.items() if value is not None}

    def run_config(self, dataset: str, scheme: str, kernel: str, **more: Any) -> RunConfig:
        """The package's config of such a run; `more` are its seed and paths."""
        read = self.settings_read_by(dataset, scheme, kernel)
        sampler = {name: read.pop(name) for name in SAMPLER_KEYS if name in read}
        return RunConfig(
            sampler=SamplerConfig(scheme=scheme, kernel=kernel, **sampler),
            **self.dataset(dataset).run_config() | {"data": Path("data"), "out": Path("out")} | read | more,
        )

    def run_options(self, dataset: str, scheme: str, kernel: str) -> str:
        """The same as options of `smcda run`."""
        words = []
        for name, value in self.settings_read_by(dataset, scheme, kernel).items():
            if value is not False:
                words += [f"--{name.replace('_', '-')}"] + [quote(str(value))] * (value is not True)
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

    def decisive(self, dataset: str, scheme: str, kernel: str) -> dict[str, Any]:
        """All settings that the results of a cell depend on."""
        own = self.dataset(dataset)
        about = own.about | {"device": self.settings["device"]} | ({} if own.data else self.data_settings())
        return about | self.settings_read_by(dataset, scheme, kernel)

    def record(self, numerics: str) -> dict[str, Any]:
        """What all results depend on: the grid, the settings that decide some cell, the sampler's code."""
        record = {name: self.settings[name] for name in GRID} | {"numerics": numerics}
        for cell in self._cells():
            record |= {name: self.settings[name] for name in self.decisive(*cell) if name in self.settings}
        own = {each.name: dict(each.options) for each in self.datasets() if each.options}
        return record | ({"entries": own} if own else {})

    def conflicts(self, record: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Settings, recorded and ours, that would leave out or change a run of the recorded study."""
        unset = defaults() | dict.fromkeys(DATA_OPTIONS)
        recorded = replace(self, settings=unset | record, entries=record.get("entries", {}))
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
        for own in self.datasets():
            try:
                own.check(source)
                n_train, _ = self.n_examples(own.name)
                for scheme, kernel in product(self.settings["schemes"], self.settings["kernels"]):
                    self.run_config(own.name, scheme, kernel).sampler.for_data(n_train)
            except BadInput as error:
                where = f"datasets/{own.name}: " if own.options else ""
                raise BadInput(f"{where}{error}") from None


def merged(entries: dict[str, dict[str, Any]], more: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries of datasets with more of them, key by key."""
    return entries | {name: entries.get(name, {}) | entry for name, entry in more.items()}


def defaults() -> dict[str, Any]:
    """Settings of a scale that says nothing."""
    return Scale().model_dump(exclude={"datasets"}) | {"datasets": PUBLISHED}


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
    config.update(model.model_dump(exclude={*Scale.model_fields, "scales", "small_data"}))
    chosen = model.scales[model.scale].model_dump(exclude_unset=True)
    overrides = model.model_dump(exclude_unset=True, include=set(Scale.model_fields))
    settings, entries = defaults() | chosen | overrides, {}
    for layer in (chosen, overrides):
        entries = merged(entries, layer.get("datasets", {}))
    settings["datasets"] = list(settings["datasets"])
    settings |= {name: config[name] for name in ("mirror_dir", "download_cache")}
    study = Study(model.scale, f"{model.output_dir}/{model.study or model.scale}", settings, entries=entries)
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
