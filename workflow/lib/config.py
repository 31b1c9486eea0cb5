"""What config.yaml may say.

Options of the sampler and of a run are declared in `smcda.config`; their defaults, bounds and descriptions
are taken from there. Only what the workflow adds is declared here. The JSON schema and docs/config.md follow
from the models below (`python tools/write_config_reference.py`).
"""

import re
from typing import Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    create_model,
    model_validator,
)

from lib.datasets import PUBLISHED
from smcda._options import Option, options
from smcda.config import ADAPTIVE, ProcessConfig, RunConfig, SamplerConfig
from smcda.errors import BadInput

CHOSEN_PER_RUN = {"scheme", "kernel"}
CHOSEN_FOR_THE_MACHINE = {"micro_batch", "particle_chunk", "devices"}
OPTIONS = {
    option.name: option for config in (SamplerConfig, RunConfig, ProcessConfig) for option in options(config)
}
SAMPLER_KEYS = [
    option.name
    for option in options(SamplerConfig)
    if option.name not in CHOSEN_PER_RUN | CHOSEN_FOR_THE_MACHINE
]
RUN_KEYS = [*SAMPLER_KEYS, "prior_scale", "start", "start_seed", "batch_norm", "evaluate_every"]

WORDS = {"true": True, "false": False, "null": None}
NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
DATASET_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,23}$"  # titles of figures have to hold it


class ConfigError(ValueError):
    """The config breaks a rule: one line that names the key, the value and what is allowed."""


def _check(option: Option) -> BeforeValidator:
    """Hold a value against the option's own rule."""

    def check(value: Any) -> Any:
        try:
            return option.check(value)
        except BadInput as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(check)


def _field(option: Option) -> tuple[Any, Any]:
    """A model's field for an option of the package: type, default, bounds, description and check."""
    kinds = [option.kind]
    bounds = {"ge": option.at_least, "gt": option.above, "le": option.at_most}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if option.names:
        kinds = [Literal[tuple(option.names)]]
    elif given:
        kinds = [Annotated[option.kind, Field(**given)]]
    kinds += [Literal[word] for word in option.words]
    if option.multiple:
        kinds.append(Annotated[str, Field(pattern=option.multiple, examples=[f"2*{option.multiples_of}"])])
    kinds += [type(None)] * (option.default is None)

    description = option.help + (f"; null: {option.unset}" if option.unset else "")
    kind = Annotated[Union[tuple(kinds)], _check(option)]  # noqa: UP007
    return kind, Field(option.default, description=description)


def _from_text(value: Any, in_list: bool = False) -> Any:
    """Undo what `--config` does to values: batch_norm=false and the numbers of seeds='[0]' arrive as text."""
    if isinstance(value, list):
        return [_from_text(inner, in_list=True) for inner in value]
    if isinstance(value, str) and in_list and re.fullmatch("[0-9]{1,10}", value):
        return int(value)
    return WORDS.get(value, value) if isinstance(value, str) else value


def _number_from_text(value: Any) -> Any:
    """Undo what `--config` does to numbers inside a mapping, which arrive as text."""
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return value


def _unique(values: list[Any]) -> list[Any]:
    if len(set(values)) < len(values):
        raise ValueError("must not name anything twice")
    return values


def _list_of(kind: Any, default: list[Any], description: str) -> tuple[Any, Any]:
    return (
        Annotated[list[kind], AfterValidator(_unique)],
        Field(default, min_length=1, description=description),
    )


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: _from_text(value) for name, value in given.items()}


class _Dataset(_Strict):
    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return {} if given in (None, "", "null") else given  # `mnist:` with nothing behind it
        return {
            name: _number_from_text(value) if name in RUN_KEYS else value for name, value in given.items()
        }


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
        Annotated[str | None, _check(_model._replace(default=None))],
        Field(
            None, min_length=1, description=f"{_model.help}, as file.py:name; null: the built-in dataset's"
        ),
    ),
    model_options=(
        dict[str, JsonValue],
        Field({}, description="options of your own model, by name"),
    ),
    likelihood=_field(OPTIONS["likelihood"]),
    seconds_per_evaluation=(
        float | None,
        Field(None, gt=0, description="seconds per gradient of one particle and example, for time requests"),
    ),
    **{
        name: (_field(OPTIONS[name])[0], Field(None, description=_field(OPTIONS[name])[1].description))
        for name in RUN_KEYS
    },
)


def _by_name(given: Any) -> Any:
    """A list of names as a mapping; each then means what is known of it."""
    if isinstance(given, list):
        if not all(isinstance(name, str) for name in given):
            raise ValueError("must be a list of names, or a mapping from names to what they are")
        given = dict.fromkeys(_unique(given), {})
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
    __base__=_Strict,
    datasets=(
        Datasets,
        Field(PUBLISHED, description="datasets: names, or a mapping from each name to what it is"),
    ),
    schemes=_list_of(
        Literal[tuple(_schemes)], [name for name in _schemes if name != ADAPTIVE], "data-annealing schemes"
    ),
    kernels=_list_of(Literal[tuple(_kernels)], _kernels, "kernels"),
    seeds=_list_of(
        Annotated[int, Field(ge=_seed.at_least, le=_seed.at_most)],
        [_seed.default],
        "seeds, one run for each",
    ),
    **{name: _field(OPTIONS[name]) for name in (*RUN_KEYS, "device")},
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
    checkpoint_every: _field(OPTIONS["checkpoint_every"])[0] = _field(OPTIONS["checkpoint_every"])[1]
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
    key, where = "/".join(map(str, (*parents, last))), "/".join(map(str, parents))
    if first["type"] == "extra_forbidden":
        model = Ablation if "ablations" in parents else Scale if parents else Config
        model = Dataset if parents[-2:-1] == ["datasets"] else model
        place, known = f" in {where}" if where else "", ", ".join(model.model_fields)
        return f"key {last!r}{place} is unknown (value {first['input']!r}): choose from {known}"
    if first["type"] == "invalid_key":
        return f"key {first['input']!r} in {where or 'config'} is not text: put it in quotes, or correct it"
    if first["type"] == "missing":
        return f"{where or 'config'} lacks the key {last!r}: add it"
    message = re.sub(r"^(Input|List|String|Dictionary) should", "must", first["msg"])
    if first["type"] == "value_error":
        message = str(first["ctx"]["error"])
        if last in OPTIONS:  # the package's own message names the key and the value
            return f"{where}: {message}" if where else message
    return f"{key} is {first['input']!r}, but {message}"
