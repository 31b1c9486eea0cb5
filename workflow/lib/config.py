"""What config.yaml may say.

Options of the sampler and of a run are declared in `smcda.config`; their defaults, bounds and descriptions
are taken from there. Only what the workflow adds is declared here. The JSON schema and docs/config.md follow
from the models below (`python tools/write_config_reference.py`).
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, ValidationError, create_model, model_validator

from lib.datasets import PUBLISHED
from lib.fields import NAME, OPTIONS, RUN_KEYS, Strict, check, field_of, list_of, number_from_text, unique
from lib.small_config import METHODS, SmallData
from smcda.config import ADAPTIVE

DATASET_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,23}$"  # titles of figures have to hold it


class ConfigError(ValueError):
    """The config breaks a rule: one line that names the key, the value and what is allowed."""


class _Dataset(Strict):
    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return {} if given in (None, "", "null") else given  # `mnist:` with nothing behind it
        return {name: number_from_text(value) if name in RUN_KEYS else value for name, value in given.items()}


_model = OPTIONS["model"]
Dataset = create_model(
    "Dataset",
    __base__=_Dataset,
    __doc__="What a name in `datasets` means. Any option of a run overrides the scale's for this dataset.",
    data=(
        str | None,
        Field(
            None,
            min_length=1,
            description="your own .npz of train_x, train_y, test_x, test_y; null: a built-in dataset",
        ),
    ),
    model=(
        Annotated[str | None, check(_model._replace(default=None))],
        Field(
            None, min_length=1, description=f"{_model.help}, as file.py:name; null: the built-in dataset's"
        ),
    ),
    model_options=(
        dict[str, JsonValue],
        Field({}, description="options of your own model, by name"),
    ),
    likelihood=field_of(OPTIONS["likelihood"]),
    seconds_per_evaluation=(
        float | None,
        Field(None, gt=0, description="seconds per gradient of one particle and example, for time requests"),
    ),
    **{
        name: (field_of(OPTIONS[name])[0], Field(None, description=field_of(OPTIONS[name])[1].description))
        for name in RUN_KEYS
    },
)


def _by_name(given: Any) -> Any:
    """A list of names as a mapping; each then means what is known of it."""
    if isinstance(given, list):
        if not all(isinstance(name, str) for name in given):
            raise ValueError("must be a list of names, or a mapping from names to what they are")
        given = dict.fromkeys(unique(given), {})
    if given == {}:
        raise ValueError("must name at least one dataset")
    return given


Datasets = Annotated[
    dict[Annotated[str, Field(pattern=DATASET_NAME)], Dataset],
    BeforeValidator(_by_name, json_schema_input_type=list[str] | dict[str, Dataset]),
]

_schemes, _kernels, _seed = OPTIONS["scheme"].names, OPTIONS["kernel"].names, OPTIONS["seed"]
_Options = create_model(
    "_Options",
    __base__=Strict,
    datasets=(
        Datasets,
        Field(PUBLISHED, description="datasets: names, or a mapping from each name to what it is"),
    ),
    schemes=list_of(
        Literal[tuple(_schemes)], [name for name in _schemes if name != ADAPTIVE], "data-annealing schemes"
    ),
    kernels=list_of(Literal[tuple(_kernels)], _kernels, "kernels"),
    seeds=list_of(
        Annotated[int, Field(ge=_seed.at_least, le=_seed.at_most)],
        [_seed.default],
        "seeds, one run for each",
    ),
    **{name: field_of(OPTIONS[name]) for name in (*RUN_KEYS, "device")},
)


class Ablation(_Options):
    """Overrides of a scale's settings. Runs `constant` with the scale's grid unless it says otherwise."""

    seconds_per_evaluation: float | None = Field(
        None,
        gt=0,
        description="seconds per gradient of one particle and image, for time requests; null: a guess",
    )


class Scale(Ablation):
    """One size of the study. Every key has a default."""

    source: Literal["bundled", "full"] = Field(
        "bundled", description="images: the package's subset, or everything (downloaded or from mirror_dir)"
    )
    train_images: int | None = Field(None, ge=1, description="use only so many training images; null: all")
    test_images: int | None = Field(None, ge=1, description="use only so many test images; null: all")
    ablations: dict[Annotated[str, Field(pattern=NAME)], Ablation] = Field(
        {}, description="named overrides, each run by `snakemake ablations`"
    )


class Config(Scale):
    """The whole file. Keys of a scale may also stand at the top level, and overrule the scale's."""

    scale: str = Field(description="which of `scales` to build")
    scales: dict[Annotated[str, Field(pattern=NAME)], Scale] = Field(min_length=1, description="named sizes")
    # Braces would be wildcards to Snakemake.
    output_dir: str = Field("results", pattern="^[^{}]+$", description="results go to output_dir/study")
    study: str | None = Field(
        None, pattern=NAME, description="name of the results' folder; null: the scale's"
    )
    replace: bool = Field(False, description="make a finished study again in place, with other settings")
    compilation_cache: str = Field(
        ".cache/compiled", min_length=1, description="compiled programs, shared by all runs"
    )
    checkpoint_every: field_of(OPTIONS["checkpoint_every"])[0] = field_of(OPTIONS["checkpoint_every"])[1]
    small_data: SmallData = Field(SmallData(), description="the small-data study, below")
    compare: str | None = Field(
        None,
        min_length=1,
        description="summary.csv to compare with the published table; null: the reference's",
    )
    mirror_dir: str | None = Field(
        None,
        min_length=1,
        description="offline source of the full data: IDX files in mirror_dir/dataset",
    )
    download_cache: str | None = Field(None, min_length=1, description="where TFDS caches its downloads")


def describe(error: ValidationError) -> str:
    """One line for the first thing that is wrong: which key, which value, what is allowed."""
    first = error.errors()[0]
    *parents, last = first["loc"] or ("config",)
    kind = parents.pop(3) if parents[:2] == ["small_data", "methods"] and len(parents) > 3 else None
    key, where = "/".join(map(str, (*parents, last))), "/".join(map(str, parents))
    if first["type"] == "extra_forbidden":
        model = Ablation if "ablations" in parents else Scale if parents else Config
        model = Dataset if parents[-2:-1] == ["datasets"] else model
        if parents[:1] == ["small_data"]:
            model = METHODS.get(kind, SmallData)
        place, known = f" in {where}" if where else "", ", ".join(model.model_fields)
        return f"key {last!r}{place} is unknown (value {first['input']!r}): choose from {known}"
    if first["type"] == "invalid_key":
        return f"key {first['input']!r} in {where or 'config'} is not text: put it in quotes, or correct it"
    if first["type"] == "missing":
        return f"{where or 'config'} lacks the key {last!r}: add it"
    if first["type"].startswith("union_tag"):
        given = first["input"].get("kind") if isinstance(first["input"], dict) else first["input"]
        return f"{key}/kind is {given!r}, but must be one of {', '.join(METHODS)}"
    message = re.sub(r"^(Input|List|String|Dictionary) should", "must", first["msg"])
    if first["type"] == "value_error":
        message = str(first["ctx"]["error"])
        if message.startswith(f"{last} "):  # the package's own message names the key and the value
            return f"{where}: {message}" if where else message
    return f"{key} is {first['input']!r}, but {message}"
