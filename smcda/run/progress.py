"""How a run is going: a bar on a terminal, lines in a log, or nothing.

All three have the methods start, step and close, so the run does not know which it has.
"""

import sys
import time
from datetime import timedelta
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 5.0


class Status(NamedTuple):
    """Where a run stands."""

    iteration: int
    batch_size: int
    beta: float
    ess: float
    test_accuracy: float | None
    seconds_left: float

    def describe(self) -> str:
        """One short line: M_k, beta, J_eff, the last test accuracy, time left."""
        accuracy = "" if self.test_accuracy is None else f"  test {self.test_accuracy:.2f} %"
        left = timedelta(seconds=round(self.seconds_left))
        return f"M {self.batch_size}  beta {self.beta:.2f}  J_eff {self.ess:.1f}{accuracy}  left {left}"


class ProgressView:
    """What a run reports to; this one shows nothing."""

    def start(self, title: str, n_iterations: int) -> None:
        """Begin to show a run."""

    def step(self, status: Status) -> None:
        """Show where it stands."""

    def close(self) -> None:
        """Stop showing it."""


class Lines(ProgressView):
    """A plain line every few seconds, for logs; the first and last status always get theirs."""

    def start(self, title: str, n_iterations: int) -> None:
        """Print the title."""
        self._n_iterations = n_iterations
        self._last = -SECONDS_BETWEEN_LINES
        print(title, file=sys.stderr, flush=True)

    def step(self, status: Status) -> None:
        """Print a line if the last one is old enough."""
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES or status.iteration == self._n_iterations:
            self._last = now
            width = len(str(self._n_iterations))
            line = f"iteration {status.iteration:{width}d}/{self._n_iterations}  {status.describe()}"
            print(line, file=sys.stderr, flush=True)


class Bar(ProgressView):
    """A bar on a terminal."""

    def start(self, title: str, n_iterations: int) -> None:
        """Draw the empty bar."""
        console = Console(stderr=True)
        console.print(title, highlight=False)
        # Narrow enough to show all of it on 80 columns.
        self._progress = Progress(
            BarColumn(bar_width=10),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[status]}"),
            console=console,
        )
        self._task = self._progress.add_task("", total=n_iterations, status="compiling")
        self._progress.start()

    def step(self, status: Status) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=status.iteration, status=status.describe())

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()


def choose_view(quiet: bool) -> ProgressView:
    """Choose a bar where a person watches, lines where a file does."""
    if quiet:
        return ProgressView()
    return Bar() if sys.stderr.isatty() else Lines()
