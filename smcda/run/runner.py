"""One run of a network on a dataset, from the data file to the result files.

A run that was interrupted resumes from its newest checkpoint, and its result is the one that an
undisturbed run would have had, bit for bit.
"""

import logging
import time
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp

from smcda._io import exclusive
from smcda.data.dataset import Dataset, load
from smcda.errors import Diverged, SmcdaError, Stopped
from smcda.models.lenet import NETWORKS, make_model
from smcda.parallel.plan import choose_gradients
from smcda.parallel.sharding import to_host
from smcda.request import RunRequest, check_output
from smcda.run.checkpoint import Checkpoints
from smcda.run.evaluation import Predictor, mapped
from smcda.run.fingerprint import identity
from smcda.run.loop import Run
from smcda.run.metrics_log import Journal
from smcda.run.outputs import peak_memory_mb, remove_results, versions, write_results
from smcda.run.progress import ProgressView, Status
from smcda.run.signals import StopSignals

logger = logging.getLogger("smcda")
BLOCK_SECONDS = 1.0
"""How long the host waits before it looks again; the result does not depend on it."""


def execute(request: RunRequest, view: ProgressView) -> dict[str, Any]:
    """Run, evaluate, write the results and return what `metrics.json` holds."""
    request.check_folders()
    data = load(request.data)
    request.settings.annealing(len(data.train_x))
    return _Execution(request, data, view).results()


class _Execution:
    """A run in this process: it begins or resumes, and it finishes or is stopped."""

    def __init__(self, request: RunRequest, data: Dataset, view: ProgressView) -> None:
        self._request, self._data, self._view, self._stop = request, data, view, StopSignals()
        self._journal = Journal(request.settings.iterations)
        self._saved_at: int | None = None

    def results(self) -> dict[str, Any]:
        """Go to the end and write the results, or raise `Stopped` with a checkpoint saved."""
        request, settings = self._request, self._request.settings
        title = f"{self._data.name} {settings.scheme} {settings.kernel} seed {request.seed}"
        self._view.start(title, settings.iterations)
        try:
            self._prepare()
            with exclusive(request.out / ".lock", f"making {request.out}"):
                # Again, because another process may have finished it meanwhile.
                check_output(request.out, request.overwrite)
                remove_results(request.out)
                self._resume()
                # Only now: until here a signal ends the process at once, and loses nothing.
                with self._stop:
                    return self._finish()
        finally:
            self._view.close()

    def _finish(self) -> dict[str, Any]:
        """Iterate to the end, write the results and remove what the run could have resumed from."""
        try:
            self._iterate()
        except Diverged:
            self._checkpoints.remove()  # resuming from them could only end the same way
            raise
        results = self._write()
        self._checkpoints.remove()
        return results

    def _prepare(self) -> None:
        """Build network, run, predictor and a place for checkpoints; compiling happens here."""
        request, data = self._request, self._data
        settings, make_network = request.settings, NETWORKS[request.network]
        reference = None
        if request.batch_norm:
            reference = jnp.asarray(data.train_x[: settings.batch_size])
            model = make_model(make_network(batch_norm=True), reference, request.prior_scale)
            # The statistics are the minibatch's own, so it must not be cut any further.
            settings = replace(settings, micro_batch=settings.batch_size)
        else:
            model = make_model(make_network(), prior_scale=request.prior_scale)
        started = time.perf_counter()
        compiled = choose_gradients(request.gradients, request.network, reference)
        building_s = time.perf_counter() - started
        self._gradients = "xla" if compiled is None else "native"
        self._run = run = Run(
            model.log_likelihood,
            model.prior,
            data.train_x,
            data.train_y,
            settings,
            request.seed,
            window_sums=compiled and compiled.window_sums,
        )
        logits = compiled.logits if compiled else mapped(model.logits, run.algorithm.target)
        self._predictor = Predictor(logits, data.test_x, run.state.particles, run.state.log_weights)
        self._journal.seconds["compile_s"] = building_s + run.compile_s + self._predictor.compile_s
        decisive = identity(
            settings,
            run.algorithm.layout,
            network=request.network,
            batch_norm=request.batch_norm,
            prior_scale=request.prior_scale,
            seed=request.seed,
            data_sha256=data.sha256,
            evaluate_every=request.evaluate_every,
            gradients=compiled.library if compiled else "xla",
        )
        self._checkpoints = Checkpoints(request.checkpoints, decisive, request.out)

    def _resume(self) -> None:
        """Resume from the newest usable checkpoint, if there is one."""
        found = self._checkpoints.restore(self._saved())
        if found is None:
            return
        self._run.restore(found["run"])
        self._journal.restore(found["journal"])
        self._saved_at = self._run.iteration
        n_iterations, folder = self._request.settings.iterations, self._checkpoints.folder
        logger.info("resuming at iteration %d of %d from %s", self._saved_at, n_iterations, folder)

    def _iterate(self) -> None:
        """Go to the end in blocks of about a second, evaluating and saving on the way."""
        run, every = self._run, self._request.checkpoint_every
        evaluate_every = self._request.evaluate_every
        block_seconds = min(BLOCK_SECONDS, every or BLOCK_SECONDS)
        block, looked = 1, time.monotonic()
        while not run.is_finished:
            first, seconds = run.iteration, run.runtime_s
            run.advance(min(block, evaluate_every - first % evaluate_every))
            per_iteration = (run.runtime_s - seconds) / (run.iteration - first)
            block = max(1, min(4 * block, int(block_seconds / per_iteration)))
            if run.iteration % evaluate_every == 0 or run.is_finished:
                self._journal.evaluate(self._predictor, run, self._data.test_y)
            self._view.step(self._status())
            if run.is_finished:
                break
            due = every > 0 and time.monotonic() - looked >= every
            if self._stop.received:
                self._leave()
            if due:
                self._save()
                looked = time.monotonic()
        if not self._journal.last:
            # Resumed from a checkpoint of the last iteration: only writing had failed.
            self._journal.evaluate(self._predictor, run, self._data.test_y)

    def _status(self) -> Status:
        run, last = self._run, self._run.last_row()
        accuracy = self._journal.last.get("test_accuracy")
        return Status(
            run.iteration, last["batch_size"], last["beta"], last["ess"], accuracy, run.seconds_left()
        )

    def _saved(self) -> dict[str, Any]:
        return {"run": self._run.saved(), "journal": self._journal.saved()}

    def _save(self) -> None:
        """Save a checkpoint, unless this iteration has one."""
        if self._saved_at == self._run.iteration:
            return
        before = self._checkpoints.seconds
        self._saved_at = self._checkpoints.save(self._run.iteration, self._saved())
        self._journal.seconds["checkpoint_s"] += self._checkpoints.seconds - before

    def _leave(self) -> None:
        """Save and stop, because a signal asked for it."""
        self._save()
        iteration, saved_at = self._run.iteration, self._saved_at
        what = f"stopped by {self._stop.received} at iteration {iteration}"
        if saved_at is None:
            raise SmcdaError(f"{what}, and no checkpoint could be saved: rerun to start from scratch")
        raise Stopped(f"{what}, iteration {saved_at} is saved: rerun to resume")

    def _write(self) -> dict[str, Any]:
        """Write the results; where that fails, keep the finished run so that only writing is left."""
        request, run, settings = self._request, self._run, self._request.settings
        trace = run.trace()
        results = {
            "dataset": self._data.name,
            "network": request.network,
            "scheme": settings.scheme,
            "kernel": settings.kernel,
            "seed": request.seed,
            "n_parameters": run.algorithm.target.n_parameters,
            "particles": settings.particles,
            "iterations": settings.iterations,
            **self._journal.last,
            "runtime_s": run.runtime_s,
            **self._journal.seconds,
            "gradient_evaluations": int(trace["gradient_evaluations"][-1]),
            "log_evidence": run.log_evidence(),
            "peak_memory_mb": peak_memory_mb(),
            "device": jax.devices()[0].device_kind,
            "devices": run.algorithm.layout.n_devices,
            "gradients": self._gradients,
            "versions": versions(),
            "resumed": self._journal.resumed,
            "data_sha256": self._data.sha256,
            "n_train": len(self._data.train_x),
            "n_test": len(self._data.test_x),
            "batch_norm": request.batch_norm,
            "prior_scale": request.prior_scale,
            "settings": asdict(settings)
            | {"leapfrog_steps": settings.sweeps, "initial_batch": settings.first_batch},
        }
        posterior = to_host(run.state) if request.save_posterior else None
        try:
            write_results(request.out, results, trace | self._journal.columns(), posterior)
        except OSError as error:
            self._save()
            saved_at = self._saved_at
            saved = "nothing" if saved_at is None else f"iteration {saved_at} of {settings.iterations}"
            failure = f"{error.filename} can't be written ({error.strerror})"
            raise SmcdaError(f"{failure}; {saved} is saved: fix it and rerun") from error
        return results
