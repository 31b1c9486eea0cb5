"""The parser of the command: mistakes are one line, and options follow from the configs."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from smcda._options import Option
from smcda.errors import BadInput

METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH"}


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, and adds its options only when it is used.

    So `smcda data` does not wait for JAX, which knows the choices that the help of `smcda run` lists.
    """

    add_options: Callable[["Parser"], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.add_options is not None:
            self.add_options, add_options = None, self.add_options
            add_options(self)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            # Here, because the parser of the command knows its own help.
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        self.exit(BadInput.exit_code, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_option(group: argparse._ActionsContainer, option: Option) -> None:
    """Add one option of a config as ``--its-name``."""
    name = f"--{option.name.replace('_', '-')}"
    # argparse takes % in a help text for a placeholder.
    described = option.describe().replace("%", "%%")
    if option.kind is bool:
        group.add_argument(name, action="store_true", help=described)
        return

    if option.is_list:
        group.add_argument(
            name,
            action="append",
            default=None,
            type=option.kind,
            metavar=option.symbol,
            help=f"{described}; repeatable",
        )
        return

    def parse(text: str) -> Any:
        try:
            return text if option.is_word(text) else option.kind(text)
        except ValueError:
            return option.check(text)  # which refuses it, and knows the rule

    group.add_argument(
        name,
        type=parse,
        required=option.required,
        default=None if option.required else option.default,
        metavar=option.symbol or METAVARS[option.kind],
        help=described,
    )
