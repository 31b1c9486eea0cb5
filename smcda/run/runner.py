"""One run of a network on a dataset, from the data file to the result files.

A run that was interrupted goes on from its newest checkpoint, and its result is the one that an
undisturbed run would have had, bit for bit.
"""

import time
from contextlib import ExitStack, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda._locks import locked
from smcda.config import RunConfig
from smcda.data.dataset import Dataset, load
from smcda.errors import Diverged, SmcdaError, Stopped, notice
from smcda.models.lenet import make_model
from smcda.run.checkpoint import Checkpoints
from smcda.run.evaluation import Predictor
from smcda.run.fingerprint import fingerprint, provenance
from smcda.run.loop import Run
from smcda.run.metrics_log import MetricsLog
from smcda.run.outputs import (
    check_folder,
    check_output,
    peak_memory_mb,
    remove_results,
    versions,
    write_results,
)
from smcda.run.progress import ProgressView, Status
from smcda.run.signals import StopSignals

BLOCK_SECONDS = 1.0
"""How long the host waits before it looks again; the result does not depend on it."""


def execute(config: RunConfig, view: ProgressView, stop: StopSignals | None = None) -> dict[str, Any]:
    """Run, evaluate, write the results and return what `metrics.json` holds.

    `stop` notes signals that ask to stop; without it, this function notes them while it works.
    """
    with nullcontext(stop) if stop else StopSignals() as stop:
        check_folder("checkpoint_dir", config.checkpoints)
        check_output(config.out, config.overwrite)
        data = load(config.data)
        config.sampler.check_data(len(data.train_x))
        return _Execution(config, data, view, stop).results()


class _Execution:
    """A run in this process: it begins or resumes, and it finishes or is stopped."""

    def __init__(self, config: RunConfig, data: Dataset, view: ProgressView, stop: StopSignals) -> None:
        self._config, self._data, self._view, self._stop = config, data, view, stop
        self._metrics = MetricsLog(config.sampler.iterations)
        self._saved_at: int | None = None

    def results(self) -> dict[str, Any]:
        """Go to the end and write the results, or raise `Stopped` with a checkpoint saved."""
        config, sampler = self._config, self._config.sampler
        title = f"{self._data.name} {sampler.scheme} {sampler.kernel} seed {config.seed}"
        self._view.start(title, sampler.iterations)
        try:
            with self._stop.starting(self._view.close):
                self._prepare()
            with ExitStack() as claim:
                self._claim(claim)
                self._resume()
                try:
                    self._iterate()
                except Diverged:
                    self._checkpoints.remove()  # going on from them could only end the same way
                    raise
                results = self._write()
                self._checkpoints.remove()
        finally:
            self._view.close()
        return results

    def _claim(self, claim: ExitStack) -> None:
        """Lock the place and the checkpoints, and clear the place."""
        config, check = self._config, self._stop.check
        claim.enter_context(locked(config.out / ".lock", f"making {config.out}", check))
        claim.enter_context(self._checkpoints.alone(check))
        # Again, because another process may have finished it meanwhile.
        check_output(config.out, config.overwrite)
        remove_results(config.out)

    def _prepare(self) -> None:
        """Build model, run, predictor and a place for checkpoints; compiling happens here."""
        config, data = self._config, self._data
        reference = None
        if config.batch_norm:
            reference = jnp.asarray(data.train_x[: config.sampler.batch_size])
        model = make_model(config.network, config.prior_scale, reference)
        run = Run(model, data.train_x, data.train_y, config.sampler, config.seed, gradients=config.gradients)
        assert run.plan.outputs is not None and model.likelihood is not None  # a classifier has both
        self._run = run
        self._predictor = Predictor(
            run.plan.outputs, model.likelihood, data.test_x, run.state.particles, run.state.log_weights
        )
        self._metrics.seconds["compile_s"] = run.compile_s + self._predictor.compile_s
        self._fingerprint = fingerprint(
            config.sampler,
            run.plan,
            network=config.network,
            batch_norm=config.batch_norm,
            prior_scale=config.prior_scale,
            seed=config.seed,
            data_sha256=data.sha256,
            evaluate_every=config.evaluate_every,
        )
        self._provenance = provenance()
        self._checkpoints = Checkpoints(config.checkpoints, self._fingerprint, config.out)

    def _resume(self) -> None:
        """Go on from the newest usable checkpoint, if there is one."""
        found = self._checkpoints.restore(self._saved())
        if found is None:
            return
        self._run.restore(found["run"])
        self._metrics.restore(found["metrics"])
        self._saved_at = self._run.iteration
        n_iterations, folder = self._config.sampler.iterations, self._checkpoints.folder
        notice(f"resuming at iteration {self._saved_at} of {n_iterations} from {folder}")

    def _iterate(self) -> None:
        """Go to the end in blocks of about a second, evaluating and saving on the way."""
        run, every = self._run, self._config.checkpoint_every
        evaluate_every = self._config.evaluate_every
        block_seconds = min(BLOCK_SECONDS, every or BLOCK_SECONDS)
        block, looked = 1, time.monotonic()
        while not run.is_finished:
            first, seconds = run.iteration, run.runtime_s
            run.advance(min(block, evaluate_every - first % evaluate_every))
            per_iteration = (run.runtime_s - seconds) / (run.iteration - first)
            block = max(1, min(4 * block, int(block_seconds / per_iteration)))
            if run.iteration % evaluate_every == 0 or run.is_finished:
                self._metrics.evaluate(self._predictor, run, self._data.test_y)
            self._view.step(self._status())
            if run.is_finished:
                break
            due = every > 0 and time.monotonic() - looked >= every
            if self._stop.received:
                self._leave()
            if due:
                self._save()
                looked = time.monotonic()
        if not self._metrics.last:
            # Resumed from a checkpoint of the last iteration: only writing had failed.
            self._metrics.evaluate(self._predictor, run, self._data.test_y)

    def _status(self) -> Status:
        run, last = self._run, self._run.last_row()
        accuracy = self._metrics.last.get("test_accuracy")
        return Status(
            run.iteration, last["batch_size"], last["beta"], last["ess"], accuracy, run.seconds_left()
        )

    def _saved(self) -> dict[str, Any]:
        return {"run": self._run.to_save(), "metrics": self._metrics.to_save()}

    def _save(self) -> None:
        """Save a checkpoint, unless this iteration has one."""
        if self._saved_at == self._run.iteration:
            return
        before = self._checkpoints.seconds
        self._saved_at = self._checkpoints.save(self._run.iteration, self._saved())
        self._metrics.seconds["checkpoint_s"] += self._checkpoints.seconds - before

    def _leave(self) -> None:
        """Save and stop, because a signal asked for it."""
        self._save()
        iteration, kept = self._run.iteration, self._saved_at
        what = f"stopped by {self._stop.received} at iteration {iteration}"
        if kept is None:
            raise SmcdaError(f"{what}, and no checkpoint could be saved: a new start begins afresh")
        raise Stopped(f"{what}, iteration {kept} is saved: start again to go on")

    def _write(self) -> dict[str, Any]:
        """Write the results; where that fails, keep the finished run so that only writing is left."""
        config, run, sampler = self._config, self._run, self._config.sampler
        trace = run.trace()
        results = {
            "dataset": self._data.name,
            "network": config.network,
            "scheme": sampler.scheme,
            "kernel": sampler.kernel,
            "seed": config.seed,
            "n_parameters": run.flat.n_parameters,
            "particles": sampler.particles,
            "iterations": sampler.iterations,
            **self._metrics.last,
            "runtime_s": run.runtime_s,
            **self._metrics.seconds,
            "gradient_evaluations": int(trace["gradient_evaluations"][-1]),
            "log_evidence": run.log_evidence(),
            "peak_memory_mb": peak_memory_mb(),
            "device": jax.devices()[0].device_kind,
            "devices": run.plan.n_devices,
            "gradients": "xla" if run.plan.gradients == "xla" else "native",
            "versions": versions(),
            **self._provenance,
            "resumed": self._metrics.resumed,
            "data_sha256": self._data.sha256,
            "n_train": len(self._data.train_x),
            "n_test": len(self._data.test_x),
            "batch_norm": config.batch_norm,
            "prior_scale": config.prior_scale,
            "settings": sampler.resolved(),
            "fingerprint": self._fingerprint,
        }
        posterior = None
        if config.save_posterior:
            state = run.state
            posterior = {
                "particles": np.asarray(state.particles),
                "weights": np.exp(np.asarray(state.log_weights)),
            }
        try:
            write_results(config.out, results, trace | self._metrics.columns(), posterior)
        except OSError as error:
            self._save()
            kept = self._saved_at
            saved = "nothing" if kept is None else f"iteration {kept} of {sampler.iterations}"
            failure = f"{error.filename} can't be written ({error.strerror})"
            raise SmcdaError(f"{failure}; {saved} is saved: mend that and start again") from error
        return results
