r"""From numbers to LaTeX: templates, and numbers in text."""

from pathlib import Path
from typing import Any

import jinja2

from lib.labels import escape, label

NOT_THERE = "--"


def inline_math(text: str) -> str:
    """Typeset a number so that its minus is a minus, in text and in formulas; a dash for none."""
    return f"\\ensuremath{{{text}}}" if text else NOT_THERE


def grouped(value: float) -> str:
    """Print a whole number with thin spaces between thousands."""
    return f"{value:,.0f}".replace(",", "\\,")


def setting(value: Any) -> str:
    """Print a setting: numbers as numbers, names readable, lists with commas."""
    if isinstance(value, (list, tuple)):
        return ", ".join(setting(item) for item in value)
    if value is None or isinstance(value, bool):
        return {None: NOT_THERE, True: "on", False: "off"}[value]
    if isinstance(value, (int, float)):
        return grouped(value) if isinstance(value, int) else f"{value:g}"
    return label(value).latex


def render(template: Path, **context: Any) -> str:
    r"""Fill a template whose delimiters are ``\VAR{...}`` and ``\BLOCK{...}``; unknown names are errors."""
    environment = jinja2.Environment(
        block_start_string="\\BLOCK{",
        block_end_string="}",
        variable_start_string="\\VAR{",
        variable_end_string="}",
        comment_start_string="\\#{",
        comment_end_string="}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    environment.filters |= {
        "name": lambda identifier: label(identifier).latex,
        "title": lambda identifier: label(identifier).latex_title,
        "number": inline_math,
        "escape": escape,
    }
    return environment.from_string(Path(template).read_text(encoding="utf-8")).render(**context)
