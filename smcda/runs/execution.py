"""One run in this process: it begins or resumes, iterates, and ends with a result.

A run with a place for checkpoints that was interrupted resumes from the newest of them, and its result is the
one that an undisturbed run would have had, bit for bit.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from smcda.config import SamplerConfig
from smcda.errors import Diverged, SmcdaError, Stopped
from smcda.models.base import Model
from smcda.models.starts import Start
from smcda.runs import outputs, status
from smcda.runs.checkpoint import Checkpoints
from smcda.runs.checks import check_test
from smcda.runs.compiled import compile_once
from smcda.runs.evaluation import Evaluator, foreign_scores
from smcda.runs.fingerprint import fingerprint, provenance
from smcda.runs.loop import Previous, Run
from smcda.runs.metrics_log import MetricsLog
from smcda.runs.progress import Report
from smcda.runs.result import Result
from smcda.runs.signals import StopSignals

logger = logging.getLogger("smcda")
BLOCK_SECONDS = 1.0
"""How long the host waits before it looks again; the result does not depend on it."""


class Progress(NamedTuple):
    """Where a run stands: iterations done, the newest row of the trace, the newest test metrics."""

    iteration: int
    row: dict[str, Any]
    metrics: dict[str, Any]


Callback = Callable[[Progress], bool | None]
"""Called about once a second; the run ends where one returns True."""


@dataclasses.dataclass(frozen=True)
class Task:
    """Everything that a run needs to know.

    `identity` is what else its result depends on, by name, and `about` what results say of it. Without `out`
    no files are written, without `checkpoints` it can't be resumed. `ood` are foreign inputs, of which the
    predictive should be unsure.
    """

    model: Model
    x: Any
    y: Any
    config: SamplerConfig
    seed: int = 0
    test: tuple[Any, Any] | None = None
    shuffle: bool = True
    start: Start | None = None
    start_seed: int | None = None
    previous: Previous | None = None
    gradients: str = "auto"
    evaluate_every: int = 10
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    out: Path | None = None
    save_posterior: bool = False
    checkpoints: Path | None = None
    checkpoint_every: float = 300.0
    callbacks: tuple[Callback, ...] = ()
    ood: Any = None


class Execution:
    """A task in this process."""

    def __init__(self, task: Task, report: Report, note: Callable[..., None]) -> None:
        """Build the run, the evaluator and a place for checkpoints; compiling happens here.

        `report` shows a person where the run stands, `note` is given the same by name.
        """
        self._task, self._report, self._note = task, report, note
        if task.test is not None:
            check_test(task.model, (task.x, task.y), task.test)
        self._run = run = Run(
            task.model,
            task.x,
            task.y,
            task.config,
            task.seed,
            task.shuffle,
            task.gradients,
            task.start,
            task.start_seed,
            task.previous,
        )
        evaluator = None
        if task.test is not None:
            state = run.state
            evaluator = Evaluator(
                task.model, run.plan, run.flat.unravel, task.test, state.particles, state.log_weights
            )
        self._metrics = MetricsLog(task.config.iterations, evaluator)
        self._metrics.seconds["compile_s"] = run.compile_s + (evaluator.compile_s if evaluator else 0.0)
        self._fingerprint: dict[str, Any] = {}
        # Now: the sources may be edited while the run goes on.
        self._provenance = {} if task.out is None else provenance()
        self._checkpoints = None
        if task.out is not None or task.checkpoints is not None:
            self._fingerprint = fingerprint(run, task.seed, task.evaluate_every, task.identity)
        if task.checkpoints is not None:
            place = task.out or task.checkpoints / "result"
            self._checkpoints = Checkpoints(task.checkpoints, self._fingerprint, place)

    def resume(self) -> None:
        """Resume from the newest usable checkpoint, if there is one."""
        if self._checkpoints is None or (found := self._checkpoints.restore(self._to_save())) is None:
            return
        self._run.restore(found["run"])
        self._metrics.restore(found["metrics"])
        place = (self._run.iteration, self._task.config.iterations, self._checkpoints.folder)
        logger.info("resuming at iteration %d of %d from %s", *place)

    def finish(self, stop: StopSignals) -> Result:
        """Iterate to the end, write the results and remove what the run could have resumed from."""
        try:
            self._iterate(stop)
        except Diverged:
            self._remove_checkpoints()  # resuming from them could only end the same way
            raise
        result = self._result()
        if self._task.out is not None:
            self._write(self._task.out, result)
        self._remove_checkpoints()
        for doubt in result.diagnostics:
            logger.warning(doubt.message)
        return result

    def _iterate(self, stop: StopSignals) -> None:
        """Advance in blocks of about a second, evaluating and saving between them."""
        run, every = self._run, self._task.checkpoint_every
        evaluate_every = self._task.evaluate_every
        block_seconds = min(BLOCK_SECONDS, every or BLOCK_SECONDS)
        block, saved = 1, time.monotonic()
        while not run.is_finished:
            first, seconds = run.iteration, run.runtime_s
            run.advance(min(block, evaluate_every - first % evaluate_every))
            per_iteration = (run.runtime_s - seconds) / max(run.iteration - first, 1)
            block = max(1, min(4 * block, int(block_seconds / per_iteration)))
            if run.iteration % evaluate_every == 0 or run.is_finished:
                self._metrics.evaluate(run)
            self._tell()
            if run.is_finished or self._is_enough():
                break
            if stop.received:
                self._stop(stop.received)
            if every > 0 and time.monotonic() - saved >= every:
                self._save()
                saved = time.monotonic()
        if self._metrics.evaluated_at != run.iteration:
            # Ended by a callback, or resumed from a checkpoint of the last iteration.
            self._metrics.evaluate(run)

    def _is_enough(self) -> bool:
        """Whether a callback ends the run here; all of them are called."""
        if not self._task.callbacks:
            return False
        progress = Progress(self._run.iteration, self._run.last_row(), dict(self._metrics.last))
        answers = [callback(progress) for callback in self._task.callbacks]
        return True in answers

    def _tell(self) -> None:
        """Say where the run stands: one short line for a person, and the same for the status file."""
        run, row, headline = self._run, self._run.last_row(), self._metrics.headline
        seconds = run.seconds_left()
        values = {name: row[name] for name in status.SHOWN if name in row}
        values |= {"iteration": run.iteration, "headline": headline, "seconds_left": seconds}
        values["saved_at"] = None if self._checkpoints is None else self._checkpoints.saved_at
        self._note(**values)
        self._report(run.iteration, _line(row, headline, seconds), run.is_finished)

    def _to_save(self) -> dict[str, Any]:
        return {"run": self._run.to_save(), "metrics": self._metrics.to_save()}

    def _save(self) -> int | None:
        """Save a checkpoint, unless this iteration has one; returns the newest that is saved."""
        if self._checkpoints is None:
            return None
        if self._checkpoints.saved_at != self._run.iteration:
            with self._metrics.timed("checkpoint_s"):
                self._checkpoints.save(self._run.iteration, self._to_save())
        return self._checkpoints.saved_at

    def _remove_checkpoints(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.remove()

    def _stop(self, signal: str) -> None:
        """Save and stop."""
        saved_at, what = self._save(), f"stopped by {signal} at iteration {self._run.iteration}"
        if saved_at is None:
            raise SmcdaError(f"{what}, and no checkpoint could be saved: rerun to start from scratch")
        raise Stopped(f"{what}, iteration {saved_at} is saved: rerun to resume")

    def _result(self) -> Result:
        """Put together what the run ends with."""
        task, run = self._task, self._run
        trace, diagnosis, settings = run.trace(), run.diagnose(), task.config.described()
        metrics = {
            **task.about,
            **{name: settings[name] for name in ("scheme", "kernel", "particles", "iterations")},
            "seed": task.seed,
            "n_parameters": run.flat.n_parameters,
            **self._metrics.last,
            **self._foreign_scores(),
            "runtime_s": run.runtime_s,
            **self._metrics.seconds,
            "gradient_evaluations": int(trace["gradient_evaluations"][-1]),
            "log_evidence": diagnosis.log_evidence,
            "log_evidence_error": diagnosis.log_evidence_error,
            "diagnostics": {doubt.name: doubt.message for doubt in diagnosis.doubts},
            "device": jax.devices()[0].device_kind,
            "devices": run.plan.n_devices,
            "gradients": "xla" if run.plan.gradients == "xla" else "native",
            "resumed": self._metrics.resumed,
            "n_train": int(run.data.n_data),
            "n_test": 0 if task.test is None else len(jax.tree.leaves(task.test[0])[0]),
            "settings": settings,
        }
        # One program; the slices of every leaf would be one each.
        unravel, _ = compile_once(jax.jit(jax.vmap(run.flat.unravel)).lower(run.state.particles))
        return Result(
            unravel(run.state.particles),
            np.exp(np.asarray(run.state.log_weights)),
            diagnosis.log_evidence,
            diagnosis.log_evidence_error,
            diagnosis.doubts,
            trace | self._metrics.columns(run.iteration),
            metrics,
            np.asarray(run.state.root_ancestor),
            task.model,
            (task.x, task.y),
            None if run.flat.transform is None else jax.vmap(run.flat.unravel_sampled)(run.state.particles),
        )

    def _foreign_scores(self) -> dict[str, float]:
        task, run = self._task, self._run
        if task.ood is None:
            return {}
        assert task.test is not None and run.plan.outputs is not None
        weighted = run.state.particles, run.state.log_weights
        with self._metrics.timed("evaluation_s"):
            return foreign_scores(task.model, run.plan.outputs, task.test[0], task.ood, *weighted)

    def _write(self, out: Path, result: Result) -> None:
        """Write the results; where that fails, save the finished run so that only writing is left."""
        known = {
            "peak_memory_mb": outputs.peak_memory_mb(),
            "versions": outputs.versions(),
            **self._provenance,
            "fingerprint": self._fingerprint,
        }
        posterior = result if self._task.save_posterior else None
        try:
            outputs.write_results(out, result.metrics | known, result.trace, posterior)
        except OSError as error:
            saved_at = self._save()
            saved = (
                "nothing" if saved_at is None else f"iteration {saved_at} of {self._task.config.iterations}"
            )
            failure = f"{error.filename} can't be written ({error.strerror})"
            raise SmcdaError(f"{failure}; {saved} is saved: fix it and rerun") from error


def _line(row: dict[str, Any], headline: tuple[str, float] | None, seconds_left: float | None) -> str:
    """One short line: M_k, beta, J_eff or the acceptance rate, the last test score, time left."""
    tested = ""
    if headline is not None:
        name, value = headline
        tested = f"  test {value:.2f} %" if name == "test_accuracy" else f"  {name} {value:.4g}"
    left = "" if seconds_left is None else f"  left {timedelta(seconds=round(seconds_left))}"
    health = f"accepted {row['acceptance']:.2f}" if "acceptance" in row else f"J_eff {row['ess']:.1f}"
    return f"M {row['batch_size']}  beta {row['beta']:.2f}  {health}{tested}{left}"
