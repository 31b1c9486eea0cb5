"""Test metrics, timers and the resume count of a run.

Sampling, compiling, evaluating and saving are timed apart, so that looking at a run does not make it slower
on paper. Timers continue from a checkpoint; time spent on iterations that were lost with a killed process is
not in them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from smcda.runs.evaluation import Evaluator
from smcda.runs.loop import Run

TIMERS = ("compile_s", "evaluation_s", "checkpoint_s")


class MetricsLog:
    """Metrics, timers and the number of resumptions of one run, over all processes that made it."""

    def __init__(self, n_iterations: int, evaluator: Evaluator | None) -> None:
        """Without an evaluator, for want of test data, there are no metrics."""
        self._evaluator = evaluator
        self._traced = () if evaluator is None else evaluator.traced
        self._columns = {name: np.full(n_iterations, np.nan) for name in self._traced}
        self.last: dict[str, Any] = {}
        self.seconds: dict[str, float] = dict.fromkeys(TIMERS, 0.0)
        self.resumed = 0
        self.evaluated_at = -1
        """The iteration whose particles were last scored, by this process."""

    def evaluate(self, run: Run) -> None:
        """Score the particles as they are now."""
        self.evaluated_at = run.iteration
        if self._evaluator is None:
            return
        with self.timed("evaluation_s"):
            self.last = self._evaluator(run.state.particles, run.state.log_weights)
        for name, column in self._columns.items():
            column[run.iteration - 1] = self.last[name]

    @property
    def headline(self) -> tuple[str, float] | None:
        """The metric that progress shows, and its last value."""
        if self._evaluator is None or not self.last:
            return None
        return self._evaluator.headline, self.last[self._evaluator.headline]

    @contextmanager
    def timed(self, timer: str) -> Iterator[None]:
        """Add the time spent inside to a timer."""
        started = time.perf_counter()
        yield
        self.seconds[timer] += time.perf_counter() - started

    def columns(self, n_rows: int) -> dict[str, np.ndarray]:
        """The metrics' columns of a trace of so many rows, NaN between evaluations."""
        return {name: column[:n_rows].copy() for name, column in self._columns.items()}

    def to_save(self) -> dict[str, Any]:
        """Everything but the last evaluation, which can be repeated, as arrays."""
        seconds = {name: np.asarray(value) for name, value in self.seconds.items()}
        return {"columns": self._columns, "seconds": seconds, "resumed": np.asarray(self.resumed)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what another process saved; its timers are added to this one's."""
        # By this order of names: a stored tree has forgotten its own.
        self._columns = {name: saved["columns"][name].copy() for name in self._traced}
        for name in TIMERS:
            self.seconds[name] += float(saved["seconds"][name])
        self.resumed = int(saved["resumed"]) + 1
