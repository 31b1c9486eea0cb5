"""What a run has to tell besides its particles: test scores on the way, clocks, resumptions.

What is measured is kept apart: sampling, compiling, evaluating and saving each have their own clock, so
that looking at a run does not make it slower on paper. Clocks go on where a checkpoint left them; time
spent on iterations that were lost with a killed process is not in them.
"""

import time
from typing import Any

import numpy as np

from smcda.run.evaluation import Predictor, metrics, reliability
from smcda.run.loop import Run

TRACED = ("test_log_likelihood", "test_accuracy")
CLOCKS = ("compile_s", "evaluation_s", "checkpoint_s")


class Journal:
    """Scores, clocks and the number of resumptions of one run, over all processes that made it."""

    def __init__(self, n_iterations: int) -> None:
        """Nothing has been measured yet."""
        self._columns = {name: np.full(n_iterations, np.nan) for name in TRACED}
        self.last: dict[str, Any] = {}
        self.seconds = dict.fromkeys(CLOCKS, 0.0)
        self.resumed = 0

    def evaluate(self, predictor: Predictor, run: Run, labels: np.ndarray) -> None:
        """Score the particles as they are now."""
        started = time.perf_counter()
        predictive = predictor(run.state.particles, run.state.log_weights)
        bins = {name: column.tolist() for name, column in reliability(predictive, labels)._asdict().items()}
        self.last = {**metrics(predictive, labels), "reliability": bins}
        for name, column in self._columns.items():
            column[run.iteration - 1] = self.last[name]
        self.seconds["evaluation_s"] += time.perf_counter() - started

    def columns(self) -> dict[str, list[float | None]]:
        """The scores' columns of the trace, None between evaluations."""
        return {
            name: [None if np.isnan(value) else float(value) for value in column]
            for name, column in self._columns.items()
        }

    def saved(self) -> dict[str, Any]:
        """Everything but the last evaluation, which can be taken again, as arrays."""
        seconds = {name: np.asarray(value) for name, value in self.seconds.items()}
        return {"columns": self._columns, "seconds": seconds, "resumed": np.asarray(self.resumed)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what another process saved; its clocks are added to this one's."""
        # By this order of names: a stored tree has forgotten its own.
        self._columns = {name: saved["columns"][name].copy() for name in TRACED}
        for name in CLOCKS:
            self.seconds[name] += float(saved["seconds"][name])
        self.resumed = int(saved["resumed"]) + 1
