"""Declaring options: what a field of a config means, which values it takes, and the check of a value.

`smcda.config` declares every option with these; the command line's parser, the workflow's schema and the
reference page read them back by `options`.
"""

import dataclasses
import math
import pkgutil
import re
from dataclasses import MISSING
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from smcda._plugins import is_reference
from smcda.errors import BadInput


class Option(NamedTuple):
    """One field of a config: everything a parser, a schema or a reference page needs.

    `symbol` is its name in formulas, `unset` says what None stands for. `choices` are names, or a table of
    the package that has them as keys (``module:NAME``, imported on first use); where `extensible`, also a
    user's own (`smcda._plugins`). Bounds are inclusive but for `above`. Of the word `multiples_of` multiples
    by such a number may be given too: ``2*word``.
    """

    name: str
    type: Any
    default: Any
    help: str
    symbol: str | None = None
    unset: str | None = None
    choices: str | tuple[str, ...] | None = None
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    extensible: bool = False
    multiples_of: str | None = None

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
    def is_list(self) -> bool:
        """Whether the value is a tuple of such."""
        return get_origin(self.type) is tuple

    @property
    def words(self) -> list[str]:
        """Words that may stand for a number."""
        literals = [part for part in get_args(self.type) if get_origin(part) is Literal]
        return [word for part in literals for word in get_args(part)]

    @property
    def multiple(self) -> str | None:
        """Pattern of the multiples of a word, as JSON schema has them too."""
        return None if self.multiples_of is None else rf"^[0-9.eE+-]+\*{self.multiples_of}$"

    def is_word(self, value: Any) -> bool:
        """Whether a value is text that may stand for a number."""
        if not isinstance(value, str):
            return False
        return value in self.words or bool(self.multiple and re.match(self.multiple, value))

    @property
    def names(self) -> list[str]:
        """The allowed names; none where any value of the type is allowed."""
        table = pkgutil.resolve_name(self.choices) if isinstance(self.choices, str) else self.choices
        return list(table or ())

    def describe(self) -> str:
        """Description, choices and default in one line."""
        text = self.help + (f": {', '.join(self.names)}" if self.names else "")
        text += ", or file.py:name" * self.extensible
        if self.required or self.kind is bool:
            return text
        return f"{text} (default: {self.unset if self.default is None else self.default})"

    def refuse(self, value: Any, rule: str) -> BadInput:
        """The error of a value that breaks a rule."""
        hint = "leave it out to have it chosen" if self.default is None else f"{self.default} is the default"
        fix = "set it" if self.required else hint
        return BadInput(f"{self.name} is {value!r}, but must be {rule}: {fix}")

    def check(self, value: Any) -> Any:
        """The value if it keeps the rules, NumPy's numbers as Python's; raises `BadInput` otherwise."""
        if value is None and self.default is None:
            return value
        if self.extensible and (is_reference(value) or not isinstance(value, str)):
            return value
        if self.is_list:
            numbers = self.kind in (int, float)
            if not isinstance(value, list | tuple) or not (
                numbers or all(isinstance(each, self.kind) for each in value)
            ):
                raise self.refuse(value, f"several of type {self.kind.__name__}")
            return tuple(map(self._check_number, value)) if numbers else tuple(value)
        if self.is_word(value):
            return value if value in self.words else self._check_multiple(value)
        if self.kind in (int, float):
            return self._check_number(value)
        if self.names and value not in self.names:
            more = ", or give your own as file.py:name" * self.extensible
            raise BadInput(f"{self.name} {value!r} is unknown: choose one of {', '.join(self.names)}{more}")
        if not isinstance(value, self.kind):
            raise self.refuse(value, f"of type {self.kind.__name__}")
        return value

    def _check_number(self, value: Any) -> Any:
        """Judge a number as float32 sees it: 1e39 is not finite there, and 1e-50 is zero."""
        whole = self.kind is int
        good = isinstance(value, (int, np.integer) if whole else (int, float, np.integer, np.floating))
        if good and not isinstance(value, bool):
            with np.errstate(over="ignore", under="ignore"):
                seen = int(value) if whole else np.float32(float(value) if abs(value) < 1e300 else np.inf)
            if (
                (self.at_least is None or seen >= self.at_least)
                and (self.above is None or seen > self.above)
                and (self.at_most is None or seen <= self.at_most)
                and (whole or math.isfinite(seen))
            ):
                return self.kind(value)
        raise self.refuse(value, self._rule(whole))

    def _rule(self, whole: bool) -> str:
        limits = (("of at least", self.at_least), ("above", self.above), ("at most", self.at_most))
        bounds = " and ".join(f"{word} {limit:.10g}" for word, limit in limits if limit is not None)
        multiples = [f"such a number times one, as in 2*{self.multiples_of}"] * (
            self.multiples_of is not None
        )
        words = "".join(f" or {word}" for word in [*self.words, *multiples])
        return f"{'a whole' if whole else 'a finite'} number {bounds}".strip() + words

    def _check_multiple(self, value: Any) -> Any:
        """``2*word`` if the number keeps the rules of a number."""
        try:
            self._check_number(float(value.partition("*")[0]))
        except (ValueError, BadInput):
            raise self.refuse(value, self._rule(whole=False)) from None
        return value


def option(default: Any, help: str, **rules: Any) -> Any:
    """Declare a field with the rest of its `Option`; a default of MISSING makes it required."""
    return dataclasses.field(default=default, metadata={"help": help, **rules})


def options(config: type) -> list[Option]:
    """All options that a config class declares, in order."""
    fields = [field for field in dataclasses.fields(config) if field.metadata]
    return [Option(field.name, field.type, field.default, **field.metadata) for field in fields]


def check(config: Any) -> None:
    """Hold every option of a config against its rules."""
    for found in options(type(config)):
        object.__setattr__(config, found.name, found.check(getattr(config, found.name)))
