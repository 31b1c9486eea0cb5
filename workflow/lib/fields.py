"""Fields of the config's models: the package's options, values that arrive as text, lists of names."""

import re
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from smcda._options import Option, options
from smcda.config import ProcessConfig, RunConfig, SamplerConfig
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


def check(option: Option) -> BeforeValidator:
    """Hold a value against the option's own rule."""

    def checked(value: Any) -> Any:
        try:
            found = option.check(value)
            return list(found) if isinstance(found, tuple) else found
        except BadInput as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(checked)


def field_of(option: Option) -> tuple[Any, Any]:
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
    if option.is_list:
        kinds = [Annotated[list[Union[tuple(kinds)]], Field(min_length=1)]]  # noqa: UP007
    kinds += [type(None)] * (option.default is None)

    description = option.help + (f"; null: {option.unset}" if option.unset else "")
    default = list(option.default) if option.is_list else option.default
    kind = Annotated[Union[tuple(kinds)], check(option)]  # noqa: UP007
    return kind, Field(default, description=description)


def _from_text(value: Any, in_list: bool = False) -> Any:
    """Undo what `--config` does to values: batch_norm=false and the numbers of seeds='[0]' arrive as text."""
    if isinstance(value, list):
        return [_from_text(inner, in_list=True) for inner in value]
    if isinstance(value, str) and in_list and re.fullmatch("[0-9]{1,10}", value):
        return int(value)
    return WORDS.get(value, value) if isinstance(value, str) else value


def number_from_text(value: Any) -> Any:
    """Undo what `--config` does to numbers inside a mapping, which arrive as text."""
    if isinstance(value, list):
        return [number_from_text(inner) for inner in value]
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return value


def unique(values: list[Any]) -> list[Any]:
    """Refuse a list that names something twice."""
    if len(set(values)) < len(values):
        raise ValueError("must not name anything twice")
    return values


def list_of(kind: Any, default: list[Any], description: str) -> tuple[Any, Any]:
    """A model's field for a list of different values, at least one."""
    return (
        Annotated[list[kind], AfterValidator(unique)],
        Field(default, min_length=1, description=description),
    )


class Strict(BaseModel):
    """A model that knows its keys, and reads values that arrive as text from the command line."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: _from_text(value) for name, value in given.items()}
