"""How a run is going: a bar on a terminal, lines in a log, or nothing.

Each view is a context manager that takes the run's title and number of iterations (None where nobody knows
it). It yields a function that shows where the run stands: the iteration, a short line, and whether it is the
last. So the run does not know which view it has.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 5.0

Report = Callable[[int, str, bool], None]
ProgressView = Callable[[str, int | None], AbstractContextManager[Report]]


@contextmanager
def silence(title: str, n_iterations: int | None) -> Iterator[Report]:
    """Show nothing."""
    del title, n_iterations
    yield lambda iteration, status, is_last: None


@contextmanager
def lines(title: str, n_iterations: int | None) -> Iterator[Report]:
    """Print a plain line every few seconds, for logs; the first and last status always get theirs."""
    print(title, file=sys.stderr, flush=True)
    printed = -math.inf

    def report(iteration: int, status: str, is_last: bool) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= SECONDS_BETWEEN_LINES or is_last:
            printed = now
            place = f"iteration {iteration:4d}"
            if n_iterations is not None:
                place = f"iteration {iteration:{len(str(n_iterations))}d}/{n_iterations}"
            print(f"{place}  {status}", file=sys.stderr, flush=True)

    yield report


@contextmanager
def bar(title: str, n_iterations: int | None) -> Iterator[Report]:
    """Draw a bar on a terminal, narrow enough to show all of the status on 80 columns."""
    console = Console(stderr=True)
    console.print(title, highlight=False)
    of = "" if n_iterations is None else f"/{n_iterations}"
    counter, status = TextColumn("{task.completed}" + of), TextColumn("{task.fields[status]}")
    with Progress(BarColumn(bar_width=10), counter, status, console=console) as progress:
        task = progress.add_task("", total=n_iterations, status="compiling")
        yield lambda iteration, status, is_last: progress.update(task, completed=iteration, status=status)


def choose_view(quiet: bool) -> ProgressView:
    """Choose a bar where a person watches, lines where a file does."""
    if quiet:
        return silence
    return bar if sys.stderr.isatty() else lines
