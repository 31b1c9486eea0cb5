"""Run the Python of pages of the documentation, and write what it prints into them.

python tools/run_pages.py docs/start.md docs/tutorials/*.md

The blocks of a page run one after the other in one namespace, as a reader would paste them. A block of text
that follows a block of Python is what that prints: it is replaced.
"""

import contextlib
import io
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
"""A block of Python at the start of a line, and what it prints where the page shows that."""


class Ran(NamedTuple):
    """A block that ran: what it printed, and what the page says it prints, or None."""

    printed: str
    shown: str | None


def run_blocks(text: str, names: dict[str, Any]) -> Iterator[Ran]:
    """Run the blocks of a page one by one; `names` is their namespace."""
    for code, shown in (block.groups() for block in BLOCK.finditer(text)):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, names)
        yield Ran(printed.getvalue(), shown)


def with_outputs(text: str, ran: list[Ran]) -> str:
    """The page with what was printed in the place of what it shows."""
    left = iter(ran)

    def fill(block: re.Match[str]) -> str:
        printed = next(left).printed
        head = f"```python\n{block[1]}```\n"
        return head if block[2] is None else f"{head}\n```text\n{printed}```\n"

    return BLOCK.sub(fill, text)


def main() -> None:
    """Run every page in a folder of its own."""
    for page in map(Path.resolve, map(Path, sys.argv[1:])):
        started, text = time.perf_counter(), page.read_text()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            ran = list(run_blocks(text, {"__name__": page.stem}))
        page.write_text(with_outputs(text, ran))
        seconds, processor = time.perf_counter() - started, time.process_time()
        print(f"{page.name}: {len(ran)} blocks, {seconds:.0f} s ({processor:.0f} s of processor so far)")


if __name__ == "__main__":
    main()
