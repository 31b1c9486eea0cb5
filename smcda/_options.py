"""Declaring options: what a field of a config means, which values it takes, and the check of a value.

`smcda.config` declares every option with these; the command line's parser, the workflow's schema and the
reference page read them back by `options`.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import MISSING
from importlib import import_module
from typing import Any, NamedTuple, get_args

import numpy as np

from smcda.errors import BadInput


class Table(NamedTuple):
    """A table of named choices in the package, imported on first use: ``module:NAME``."""

    path: str

    def load(self) -> Mapping[str, Any]:
        """Import the table."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)


class Rule(NamedTuple):
    """What an option means and which values it takes.

    `symbol` is its name in formulas; `unset` says what None stands for. Bounds are inclusive but for `above`.
    """

    help: str
    symbol: str | None = None
    unset: str | None = None
    choices: Table | tuple[str, ...] | None = None
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None

    def names(self) -> list[str] | None:
        """The allowed names, or None where any value of the type is allowed."""
        if self.choices is None:
            return None
        return list(self.choices.load() if isinstance(self.choices, Table) else self.choices)


class Option(NamedTuple):
    """One field of a config: everything a parser, a schema or a reference page needs."""

    name: str
    type: Any
    default: Any
    rule: Rule

    @property
    def required(self) -> bool:
        """Whether the option has no default."""
        return self.default is MISSING

    @property
    def kind(self) -> Any:
        """The type of a value that is not None, nor one of the words that may stand for a number."""
        kinds = get_args(self.type) or (self.type,)
        return next(kind for kind in kinds if isinstance(kind, type) and kind is not type(None))

    @property
    def hint(self) -> str:
        """The end of an error message: what to do."""
        if self.required:
            return "choose another"
        return "leave it out to have it chosen" if self.default is None else f"{self.default} is the default"

    @property
    def words(self) -> list[str]:
        """Words that may stand for a number."""
        return [word for part in get_args(self.type) for word in get_args(part)]

    def describe(self) -> str:
        """Description, choices and default in one line."""
        names = self.rule.names()
        text = self.rule.help + (f": {', '.join(names)}" if names else "")
        if self.required or self.kind is bool:
            return text
        default = self.rule.unset if self.default is None else self.default
        return text if default is None else f"{text} (default: {default})"


def option(default: Any, help: str, **rule: Any) -> Any:
    """Declare a field with its `Rule`; a default of MISSING makes it required."""
    return dataclasses.field(default=default, metadata={"rule": Rule(help, **rule)})


def options(config: type) -> list[Option]:
    """All options that a config class declares, in order."""
    fields = dataclasses.fields(config)
    return [
        Option(field.name, field.type, field.default, field.metadata["rule"])
        for field in fields
        if "rule" in field.metadata
    ]


def check(config: Any) -> None:
    """Hold every option of a config against its rule; NumPy's numbers become Python's."""
    for found in options(type(config)):
        value = checked(found, getattr(config, found.name))
        object.__setattr__(config, found.name, value)


def checked(option: Option, value: Any) -> Any:
    """The value of an option if it keeps the rule; raises `BadInput` otherwise."""
    name, rule, kind = option.name, option.rule, option.kind
    if value in option.words or (value is None and option.default is None):
        return value
    if kind in (int, float):
        return _number(option, value)
    names = rule.names()
    if names is not None and value not in names:
        raise BadInput(f"{name} {value!r} is unknown: choose one of {', '.join(names)}")
    if not isinstance(value, str if names else kind):
        raise BadInput(f"{name} is {value!r}, but must be of type {kind.__name__}: {option.hint}")
    return value


def _number(option: Option, value: Any) -> Any:
    """A whole or finite number within the bounds, judged as float32 sees it."""
    rule, kind = option.rule, option.kind
    allowed = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
    good = isinstance(value, allowed) and not isinstance(value, bool)
    if good:
        # 1e39 is not finite in float32, and 1e-50 is zero.
        with np.errstate(over="ignore", under="ignore"):
            seen = int(value) if kind is int else np.float32(value)
        good = (
            (rule.at_least is None or seen >= rule.at_least)
            and (rule.above is None or seen > rule.above)
            and (rule.at_most is None or seen <= rule.at_most)
            and (kind is int or math.isfinite(seen))
        )
    if not good:
        limits = (("of at least", rule.at_least), ("above", rule.above), ("at most", rule.at_most))
        bounds = " and ".join(f"{word} {limit:.10g}" for word, limit in limits if limit is not None)
        what = f"{'a whole' if kind is int else 'a finite'} number {bounds}".strip()
        also = "".join(f" or {word}" for word in option.words)
        raise BadInput(f"{option.name} is {value!r}, but must be {what}{also}: {option.hint}")
    return kind(value)
