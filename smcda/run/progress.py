"""How a run is going: a bar on a terminal, lines in a log, or nothing.

Each view is a context manager that takes the run's title and number of iterations. It yields a function that
shows where the run stands: the iteration, and a short line. So the run does not know which view it has.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 5.0

Report = Callable[[int, str], None]
ProgressView = Callable[[str, int], AbstractContextManager[Report]]


@contextmanager
def silence(title: str, n_iterations: int) -> Iterator[Report]:
    """Show nothing."""
    del title, n_iterations
    yield lambda iteration, status: None


@contextmanager
def lines(title: str, n_iterations: int) -> Iterator[Report]:
    """Print a plain line every few seconds, for logs; the first and last status always get theirs."""
    print(title, file=sys.stderr, flush=True)
    printed = -math.inf

    def report(iteration: int, status: str) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= SECONDS_BETWEEN_LINES or iteration == n_iterations:
            printed = now
            place = f"iteration {iteration:{len(str(n_iterations))}d}/{n_iterations}"
            print(f"{place}  {status}", file=sys.stderr, flush=True)

    yield report


@contextmanager
def bar(title: str, n_iterations: int) -> Iterator[Report]:
    """Draw a bar on a terminal, narrow enough to show all of the status on 80 columns."""
    console = Console(stderr=True)
    console.print(title, highlight=False)
    counter, status = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[status]}")
    with Progress(BarColumn(bar_width=10), counter, status, console=console) as progress:
        task = progress.add_task("", total=n_iterations, status="compiling")
        yield lambda iteration, status: progress.update(task, completed=iteration, status=status)


def choose_view(quiet: bool) -> ProgressView:
    """Choose a bar where a person watches, lines where a file does."""
    if quiet:
        return silence
    return bar if sys.stderr.isatty() else lines
