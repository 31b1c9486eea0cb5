"""What the config asks for: checked, resolved to one scale, and cut into what each rule needs.

Rules receive exactly the settings they use, as params; Snakemake compares these with the ones a file
was built with, so a changed setting rebuilds what depends on it and nothing else.
"""

import fcntl
import hashlib
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, TextIO

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

NETWORKS = {"mnist": "lenet5", "fashion_mnist": "fashion_cnn"}

# Options of every run; those below go only to the runs that read them.
EVERY_RUN = ("particles", "iterations", "step_size", "batch_size", "initial_batch", "resampling")
EVERY_RUN += ("weight_target",)
BY_SCHEME = {
    "constant_to_refine": ("refine_from",),
    "linear": ("refine_from",),
    "automated": ("refine_from",),
    "smooth_data_annealing": ("delta_entropy", "beta_restart"),
}
BY_KERNEL = {"hmc": ("leapfrog_steps",)}


class ConfigError(ValueError):
    """Work can't start: the config breaks a rule, or the folder is taken; the message says which."""


@dataclass(frozen=True)
class Study:
    """One scale of the config, complete and checked."""

    scale: str
    folder: str
    settings: dict[str, Any]

    def runs(self, of_scheme: str | None = None) -> list[dict[str, Any]]:
        """Every dataset x scheme x kernel x seed, in the order of the config; or one scheme's."""
        names = ("datasets", "schemes", "kernels", "seeds")
        datasets, schemes, kernels, seeds = (self.settings[name] for name in names)
        return [
            {"dataset": dataset, "scheme": scheme, "kernel": kernel, "seed": seed}
            for dataset in datasets
            for scheme in schemes
            if of_scheme in (None, scheme)
            for kernel in kernels
            for seed in seeds
        ]

    def run_options(self, network: str, scheme: str, kernel: str) -> str:
        """Options of `smcda run` that such a run reads."""
        names = (*EVERY_RUN, *BY_SCHEME.get(scheme, ()), *BY_KERNEL.get(kernel, ()), "evaluate_every")
        given = ((name, self.settings[name]) for name in names if self.settings[name] is not None)
        options = [f"--{name.replace('_', '-')} {value}" for name, value in given]
        return " ".join([*options, *self.model_options(network)])

    def model_options(self, network: str) -> list[str]:
        """Options that say what the network and its prior are."""
        scale = self.settings["prior_scale"]
        normalised = self.settings["batch_norm"] and network == "fashion_cnn"
        return [f"--prior-scale {scale}"] * (scale is not None) + ["--batch-norm"] * normalised

    def data_options(self, mirror: str | None, cache: str | None) -> str:
        """Options of `smcda data`: where the images come from and how many are used."""
        full = self.settings["source"] == "full"
        options = {
            "mirror": mirror if full else None,
            "cache": cache if full and not mirror else None,
            "train": self.settings["train_images"],
            "test": self.settings["test_images"],
        }
        flags = [] if full else ["--bundled"]
        given = (f"--{name} {quote(str(value))}" for name, value in options.items() if value is not None)
        return " ".join([*flags, *given])


def resolve(config: dict[str, Any], schema_file: Path) -> Study:
    """Check the config, choose its scale, let top-level keys overrule it and fill in defaults."""
    schema = yaml.safe_load(schema_file.read_text())
    # Snakemake reads numbers inside a list on the command line, seeds='[0]', as text.
    if isinstance(config.get("seeds"), list):
        config["seeds"] = [int(seed) if str(seed).isdecimal() else seed for seed in config["seeds"]]
    keys = schema["$defs"]["scale"]["properties"]
    # And YAML's words for yes, no and nothing, batch_norm=false prior_scale=null.
    words = {"boolean": {"true": True, "false": False}, "null": {"null": None}}
    for key, rule in keys.items():
        for kind in words.keys() & as_list(rule.get("type")):
            if isinstance(config.get(key), str):
                config[key] = words[kind].get(config[key], config[key])
    schema["properties"] |= keys
    check_plain(config, "config")
    error = best_match(Draft202012Validator(schema).iter_errors(config))
    if error:
        raise ConfigError(" ".join(describe(error).splitlines()))
    scales = config["scales"]
    if config["scale"] not in scales:
        raise ConfigError(f"scale is {config['scale']!r}, but must be one of {', '.join(scales)}")
    defaults = {name: rule["default"] for name, rule in keys.items() if "default" in rule}
    overrides = {name: config[name] for name in keys if name in config}
    for name, rule in schema["properties"].items():
        if name not in keys and "default" in rule:
            config.setdefault(name, rule["default"])
    settings = defaults | scales[config["scale"]] | overrides
    settings = {name: as_whole(value, keys[name]) for name, value in settings.items()}
    return Study(config["scale"], f"{config['output_dir']}/{config['scale']}", settings)


def as_list(value: Any) -> list[Any]:
    """What a schema may say as one or as several."""
    return value if isinstance(value, list) else [value]


def check_plain(value: Any, where: str) -> None:
    """Refuse what YAML can say and a schema can't judge: keys that are not text, numbers like .nan."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where} is {value}, but must be a finite number")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"key {key!r} in {where} is not text: put it in quotes, or correct it")
            check_plain(inner, " ".join(key.split()))
    if isinstance(value, list):
        for inner in value:
            check_plain(inner, where)


def as_whole(value: Any, rule: dict[str, Any]) -> Any:
    """4.0 as 4 where a whole number is meant, which the schema takes for the same."""
    if isinstance(value, list):
        return [as_whole(inner, rule.get("items", {})) for inner in value]
    return int(value) if isinstance(value, float) and "integer" in rule.get("type", ()) else value


def describe(error: ValidationError) -> str:
    """One line: which key, which value, what is allowed."""
    key = "/".join(str(part) for part in error.absolute_path) or "config"
    rule, allowed, value = error.validator, error.validator_value, error.instance
    if rule == "additionalProperties":
        known = sorted(error.schema.get("properties", {}))
        unknown = min(set(value) - set(known))
        where = "" if key == "config" else f" in {key}"
        return f"key {unknown!r}{where} is unknown (value {value[unknown]!r}): choose from {', '.join(known)}"
    if rule == "required":
        missing = [name for name in allowed if name not in value]
        return f"{key} lacks the key {missing[0]!r}: add it"
    rules = {
        "enum": lambda: f"must be one of {', '.join(map(str, allowed))}",
        "minimum": lambda: f"must be at least {allowed}",
        "maximum": lambda: f"must be at most {allowed}",
        "exclusiveMinimum": lambda: f"must be above {allowed}",
        "minItems": lambda: f"must have at least {allowed} entry",
        "minLength": lambda: "must not be empty",
        "minProperties": lambda: "must not be empty",
        "uniqueItems": lambda: "must not name anything twice",
        "type": lambda: f"must be of type {' or '.join(allowed) if isinstance(allowed, list) else allowed}",
    }
    return f"{key} is {value!r}, but {rules.get(str(rule), lambda: error.message)()}"


def prefer_own_commands() -> None:
    """Find the commands of the environment that runs Snakemake, also when it was not activated."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def take_lock(folder: Path) -> TextIO:
    """Keep two Snakemakes out of one folder by a lock that dies with its holder.

    Snakemake's own lock outlives a killed process and would have to be removed by hand before the
    work can go on; the default profile switches it off.
    """
    folder.mkdir(exist_ok=True)
    lock = (folder / "smcda.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError("another Snakemake is at work in this folder: wait for it, or stop it") from None
    return lock


def source_hash(*files: Path) -> str:
    """Hash of some source files, so that changing them counts as a changed param and touching does not."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
