"""Write docs/cli.md: every command and option of `smcda`, from its parser.

python tools/write_cli_reference.py
"""

import argparse
import re
import textwrap
from pathlib import Path
from typing import Any

from smcda.cli import make_parser
from smcda.config import cache_dir

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
# Commands

Generated from the parser by `python tools/write_cli_reference.py`; do not edit by hand.
`smcda COMMAND --help` says the same. In Python, the options of the sampler are those of `SamplerConfig`,
with `_` for `-`.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed |
| 2 | bad input |
| 3 | diverged: no particle has a finite log-density |
| 75 | stopped by SIGTERM, SIGINT or SIGUSR1; the same command resumes |
"""


def page() -> str:
    """The whole page."""
    sections = (section for name, parser in commands(make_parser()) for section in of(name, parser))
    return "\n".join([HEAD, *sections])


def commands(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser]]:
    """Every command that takes options, with the words that call it."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                fill(command)
                found += commands(command) or [(command.prog, command)]
    return found


def fill(parser: Any) -> None:
    """Add the options that a parser adds when it is used."""
    if parser.add_options is not None:
        parser.add_options, add_options = None, parser.add_options
        add_options(parser)


def of(name: str, parser: argparse.ArgumentParser) -> list[str]:
    """One command: what it does, and a table per group of options."""
    groups: dict[str | None, list[argparse.Action]] = {}
    for group in parser._action_groups:
        title = None if group.title in ("positional arguments", "options") else group.title
        actions = [each for each in group._group_actions if not isinstance(each, argparse._HelpAction)]
        groups.setdefault(title, []).extend(actions)
    tables = [
        (f"### {name}: {title}\n\n" if title else "") + table(actions)
        for title, actions in groups.items()
        if actions
    ]
    about = textwrap.fill(" ".join((parser.description or "").split()), 118)
    return [f"## {name}\n", f"{about}\n", *tables]


def table(actions: list[argparse.Action]) -> str:
    """One row per option."""
    rows = ["| option | meaning |", "| --- | --- |"]
    for action in actions:
        call = action.option_strings[-1] if action.option_strings else ""
        value = "" if action.nargs == 0 else str(action.metavar or action.dest)
        words = (action.help or "").replace("%%", "%").replace(str(cache_dir()), "~/.cache/smcda/compiled")
        words = re.sub(r"([*|])", r"\\\1", words).replace("<", "&lt;")
        required = "**required**; " if action.required and action.option_strings else ""
        rows.append(f"| `{f'{call} {value}'.strip()}` | {required}{words} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
