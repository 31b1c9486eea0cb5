"""One run of a network on a dataset, from the data file to the result files.

A run that was interrupted resumes from its newest checkpoint, and its result is the one that an
undisturbed run would have had, bit for bit.
"""

import dataclasses
import logging
import time
from datetime import timedelta
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda._io import exclusive
from smcda.config import RunConfig
from smcda.data.dataset import Dataset, load
from smcda.errors import Diverged, SmcdaError, Stopped
from smcda.models.lenet import make_model
from smcda.run import outputs
from smcda.run.checkpoint import Checkpoints
from smcda.run.evaluation import Predictor
from smcda.run.fingerprint import fingerprint, provenance
from smcda.run.loop import Run
from smcda.run.metrics_log import MetricsLog
from smcda.run.progress import ProgressView, Report
from smcda.run.signals import StopSignals

logger = logging.getLogger("smcda")
BLOCK_SECONDS = 1.0
"""How long the host waits before it looks again; the result does not depend on it."""

REPEATED = ("network", "scheme", "kernel", "seed", "particles", "iterations")
REPEATED += ("batch_norm", "prior_scale", "data_sha256")
"""Parts of the fingerprint that `metrics.json` also has at its top, where tables look for them."""


def execute(config: RunConfig, view: ProgressView) -> dict[str, Any]:
    """Run, evaluate, write the results and return what `metrics.json` holds."""
    outputs.check_folder("checkpoint_dir", config.checkpoints)
    outputs.check_output(config.out, config.overwrite)
    data = load(config.data)
    config = dataclasses.replace(config, sampler=config.sampler.for_data(len(data.train_x)))
    title = f"{data.name} {config.sampler.scheme} {config.sampler.kernel} seed {config.seed}"
    with view(title, None if config.sampler.is_adaptive else config.sampler.iterations) as report:
        execution = _Execution(config, data, report)
        with exclusive(config.out / ".lock", f"making {config.out}"):
            # Again, because another process may have finished it meanwhile.
            outputs.check_output(config.out, config.overwrite)
            outputs.remove_unfinished(config.out)
            execution.resume()
            # Only now: until here a signal ends the process at once, and loses nothing.
            with StopSignals() as stop:
                return execution.finish(stop)


class _Execution:
    """A run in this process: it begins or resumes, and it finishes or is stopped."""

    def __init__(self, config: RunConfig, data: Dataset, report: Report) -> None:
        """Build model, run, predictor and a place for checkpoints; compiling happens here."""
        self._config, self._data, self._report = config, data, report
        reference = jnp.asarray(data.train_x[: config.sampler.batch_size]) if config.batch_norm else None
        model = make_model(config.network, config.prior_scale, reference)
        self._run = run = Run(
            model, data.train_x, data.train_y, config.sampler, config.seed, gradients=config.gradients
        )
        assert run.plan.outputs is not None and model.likelihood is not None  # a classifier has both
        predictor = Predictor(
            run.plan.outputs, model.likelihood, data.test_x, run.state.particles, run.state.log_weights
        )
        self._metrics = MetricsLog(config.sampler.iterations, predictor, data.test_y)
        self._metrics.seconds["compile_s"] = run.compile_s + predictor.compile_s
        self._provenance = provenance()
        self._fingerprint = fingerprint(config, run.plan, data.sha256)
        self._checkpoints = Checkpoints(config.checkpoints, self._fingerprint, config.out)

    def resume(self) -> None:
        """Resume from the newest usable checkpoint, if there is one."""
        found = self._checkpoints.restore(self._to_save())
        if found is None:
            return
        self._run.restore(found["run"])
        self._metrics.restore(found["metrics"])
        place = (self._run.iteration, self._config.sampler.iterations, self._checkpoints.folder)
        logger.info("resuming at iteration %d of %d from %s", *place)

    def finish(self, stop: StopSignals) -> dict[str, Any]:
        """Iterate to the end, write the results and remove what the run could have resumed from."""
        try:
            self._iterate(stop)
        except Diverged:
            self._checkpoints.remove()  # resuming from them could only end the same way
            raise
        results = self._write()
        self._checkpoints.remove()
        return results

    def _iterate(self, stop: StopSignals) -> None:
        """Advance in blocks of about a second, evaluating and saving between them."""
        run, every = self._run, self._config.checkpoint_every
        evaluate_every = self._config.evaluate_every
        block_seconds = min(BLOCK_SECONDS, every or BLOCK_SECONDS)
        block, saved = 1, time.monotonic()
        while not run.is_finished:
            first, seconds = run.iteration, run.runtime_s
            run.advance(min(block, evaluate_every - first % evaluate_every))
            per_iteration = (run.runtime_s - seconds) / max(run.iteration - first, 1)
            block = max(1, min(4 * block, int(block_seconds / per_iteration)))
            if run.iteration % evaluate_every == 0 or run.is_finished:
                self._metrics.evaluate(run)
            self._report(run.iteration, self._status(), run.is_finished)
            if run.is_finished:
                break
            if stop.received:
                self._stop(stop.received)
            if every > 0 and time.monotonic() - saved >= every:
                self._save()
                saved = time.monotonic()
        if not self._metrics.last:
            # Resumed from a checkpoint of the last iteration: only writing had failed.
            self._metrics.evaluate(run)

    def _status(self) -> str:
        """One short line: M_k, beta, J_eff or the acceptance rate, the last test accuracy, time left."""
        last = self._run.last_row()
        accuracy = self._metrics.last.get("test_accuracy")
        tested = "" if accuracy is None else f"  test {accuracy:.2f} %"
        seconds = self._run.seconds_left()
        left = "" if seconds is None else f"  left {timedelta(seconds=round(seconds))}"
        target = f"M {last['batch_size']}  beta {last['beta']:.2f}"
        health = f"J_eff {last['ess']:.1f}"
        if "acceptance" in last:
            health = f"accepted {last['acceptance']:.2f}"
        return f"{target}  {health}{tested}{left}"

    def _to_save(self) -> dict[str, Any]:
        return {"run": self._run.to_save(), "metrics": self._metrics.to_save()}

    def _save(self) -> None:
        """Save a checkpoint, unless this iteration has one."""
        if self._checkpoints.saved_at != self._run.iteration:
            with self._metrics.timed("checkpoint_s"):
                self._checkpoints.save(self._run.iteration, self._to_save())

    def _stop(self, signal: str) -> None:
        """Save and stop."""
        self._save()
        what, saved_at = f"stopped by {signal} at iteration {self._run.iteration}", self._checkpoints.saved_at
        if saved_at is None:
            raise SmcdaError(f"{what}, and no checkpoint could be saved: rerun to start from scratch")
        raise Stopped(f"{what}, iteration {saved_at} is saved: rerun to resume")

    def _write(self) -> dict[str, Any]:
        """Write the results; where that fails, save the finished run so that only writing is left."""
        config, run, sampler = self._config, self._run, self._config.sampler
        trace, diagnosis = run.trace(), run.diagnose()
        results = {
            "dataset": self._data.name,
            **{name: self._fingerprint[name] for name in REPEATED},
            "n_parameters": run.flat.n_parameters,
            **self._metrics.last,
            "runtime_s": run.runtime_s,
            **self._metrics.seconds,
            "gradient_evaluations": int(trace["gradient_evaluations"][-1]),
            "log_evidence": diagnosis.log_evidence,
            "log_evidence_error": diagnosis.log_evidence_error,
            "diagnostics": {doubt.name: doubt.message for doubt in diagnosis.doubts},
            "peak_memory_mb": outputs.peak_memory_mb(),
            "device": jax.devices()[0].device_kind,
            "devices": run.plan.n_devices,
            "gradients": "xla" if run.plan.gradients == "xla" else "native",
            "versions": outputs.versions(),
            **self._provenance,
            "resumed": self._metrics.resumed,
            "n_train": len(self._data.train_x),
            "n_test": len(self._data.test_x),
            "settings": dataclasses.asdict(sampler),
            "fingerprint": self._fingerprint,
        }
        posterior = None
        if config.save_posterior:
            weights = np.exp(np.asarray(run.state.log_weights))
            posterior = {"particles": np.asarray(run.state.particles), "weights": weights}
        try:
            outputs.write_results(
                config.out, results, trace | self._metrics.columns(run.iteration), posterior
            )
        except OSError as error:
            self._save()
            saved_at = self._checkpoints.saved_at
            saved = "nothing" if saved_at is None else f"iteration {saved_at} of {sampler.iterations}"
            failure = f"{error.filename} can't be written ({error.strerror})"
            raise SmcdaError(f"{failure}; {saved} is saved: fix it and rerun") from error
        for doubt in diagnosis.doubts:
            logger.warning(doubt.message)
        return results
