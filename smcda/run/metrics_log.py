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

from smcda.run.evaluation import Predictor
from smcda.run.loop import Run

TRACED = ("test_log_likelihood", "test_accuracy")
TIMERS = ("compile_s", "evaluation_s", "checkpoint_s")


class MetricsLog:
    """Metrics, timers and the number of resumptions of one run, over all processes that made it."""

    def __init__(self, n_iterations: int, predictor: Predictor, labels: np.ndarray) -> None:
        """`predictor` predicts the examples whose labels are given."""
        self._predictor, self._labels = predictor, labels
        self._columns = {name: np.full(n_iterations, np.nan) for name in TRACED}
        self.last: dict[str, Any] = {}
        self.seconds: dict[str, float] = dict.fromkeys(TIMERS, 0.0)
        self.resumed = 0

    def evaluate(self, run: Run) -> None:
        """Score the particles as they are now."""
        with self.timed("evaluation_s"):
            predictive = self._predictor(run.state.particles, run.state.log_weights)
            self.last = self._predictor.likelihood.metrics(predictive, self._labels)
        for name, column in self._columns.items():
            column[run.iteration - 1] = self.last[name]

    @contextmanager
    def timed(self, timer: str) -> Iterator[None]:
        """Add the time spent inside to a timer."""
        started = time.perf_counter()
        yield
        self.seconds[timer] += time.perf_counter() - started

    def columns(self, n_rows: int) -> dict[str, list[float | None]]:
        """The metrics' columns of a trace of so many rows, None between evaluations."""
        return {
            name: [None if np.isnan(value) else float(value) for value in column[:n_rows]]
            for name, column in self._columns.items()
        }

    def to_save(self) -> dict[str, Any]:
        """Everything but the last evaluation, which can be repeated, as arrays."""
        seconds = {name: np.asarray(value) for name, value in self.seconds.items()}
        return {"columns": self._columns, "seconds": seconds, "resumed": np.asarray(self.resumed)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what another process saved; its timers are added to this one's."""
        # By this order of names: a stored tree has forgotten its own.
        self._columns = {name: saved["columns"][name].copy() for name in TRACED}
        for name in TIMERS:
            self.seconds[name] += float(saved["seconds"][name])
        self.resumed = int(saved["resumed"]) + 1
