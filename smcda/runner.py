"""One run of a network on a dataset, from the data file to the result files.

What is measured is kept apart: sampling, compiling and evaluating each have their own clock, so that
looking at a run does not make it slower on paper.
"""

import json
import os
import platform
import resource
import time
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda import __version__
from smcda.datasets import Dataset, load
from smcda.errors import BadInput
from smcda.files import whole_file, write_text
from smcda.layout import GRADIENTS, choose_gradients
from smcda.networks import NETWORKS, make_model
from smcda.predictive import Predictor, mapped, metrics, reliability
from smcda.progress import ProgressView, Status
from smcda.sampling import Run
from smcda.settings import Settings, one_of

BLOCK_SECONDS = 1.0
"""How long the host waits before it looks again; the result does not depend on it."""


@dataclass(frozen=True)
class RunRequest:
    """What to run and where to put it."""

    data: Path
    network: str
    out: Path
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    batch_norm: bool = False
    evaluate_every: int = 10
    save_posterior: bool = False
    overwrite: bool = False
    gradients: str = "auto"

    def __post_init__(self) -> None:
        """Check everything that can be known before the data are read."""
        one_of("network", self.network, NETWORKS)
        one_of("gradients", self.gradients, GRADIENTS)
        if self.batch_norm and self.network != "fashion_cnn":
            raise BadInput(
                f"batch_norm is an option of network fashion_cnn, not of {self.network}: leave it out"
            )
        if self.batch_norm and self.settings.first_batch % self.settings.batch_size:
            raise BadInput(
                f"initial_batch is {self.settings.first_batch}, but with batch_norm it must be a multiple of "
                f"batch_size ({self.settings.batch_size}), because statistics are taken a minibatch"
            )
        if not 0 <= self.seed < 2**32:
            raise BadInput(f"seed is {self.seed}, but must be from 0 to 2^32 - 1: choose another")
        if self.evaluate_every < 1:
            raise BadInput(
                f"evaluate_every is {self.evaluate_every}, but must be at least 1: choose 1 or more"
            )
        check_output(self.out, self.overwrite)


def check_output(out: Path, overwrite: bool) -> None:
    """Refuse an output folder that can't be written, or that holds a finished run."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"output {out} is a file, but must be a folder: choose another --out")
    parent = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise BadInput(f"output {out} can't be made, {parent} is not a writable folder: choose another --out")
    if (out / "metrics.json").exists() and not overwrite:
        raise BadInput(
            f"output {out} already holds a finished run: choose another --out, or give --overwrite"
        )


@dataclass
class Evaluations:
    """Test scores on the way and at the end, and the time that taking them cost."""

    columns: dict[str, list[float | None]]
    last: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def take(self, predictor: Predictor, run: Run, labels: np.ndarray) -> None:
        """Score the particles as they are now."""
        started = time.perf_counter()
        predictive = predictor(run.state.particles, run.state.log_weights)
        bins = {name: column.tolist() for name, column in reliability(predictive, labels)._asdict().items()}
        self.last = {**metrics(predictive, labels), "reliability": bins}
        for name, column in self.columns.items():
            column[run.iteration - 1] = self.last[name]
        self.seconds += time.perf_counter() - started


def execute(request: RunRequest, view: ProgressView) -> dict[str, Any]:
    """Run, evaluate, write `trace.csv`, perhaps `posterior.npz`, and last `metrics.json`."""
    data = load(request.data)
    settings = request.settings
    settings.annealing(len(data.train_x))
    for name in ("metrics.json", "trace.csv", "posterior.npz"):
        (request.out / name).unlink(missing_ok=True)

    view.start(f"{data.name} {settings.scheme} {settings.kernel} seed {request.seed}", settings.iterations)
    try:
        run, predictor = _prepare(request, data)
        evaluations = _iterate(request, data, run, predictor, view)
    finally:
        view.close()

    trace = run.trace()
    results = {
        "dataset": data.name,
        "network": request.network,
        "scheme": settings.scheme,
        "kernel": settings.kernel,
        "seed": request.seed,
        "n_parameters": run.algorithm.target.n_parameters,
        "particles": settings.particles,
        "iterations": settings.iterations,
        **evaluations.last,
        "runtime_s": run.runtime_s,
        "compile_s": run.compile_s + predictor.compile_s,
        "evaluation_s": evaluations.seconds,
        "gradient_evaluations": int(trace["gradient_evaluations"][-1]),
        "log_evidence": run.log_evidence(),
        "peak_memory_mb": _peak_memory_mb(),
        "device": jax.devices()[0].device_kind,
        "gradients": "xla" if run.algorithm.target.window_sums is None else "native",
        "versions": _versions(),
        "resumed": 0,
        "data_sha256": data.sha256,
        "n_train": len(data.train_x),
        "n_test": len(data.test_x),
        "batch_norm": request.batch_norm,
        "settings": asdict(settings)
        | {"leapfrog_steps": settings.sweeps, "initial_batch": settings.first_batch},
    }
    write_text(request.out / "trace.csv", _csv(trace | evaluations.columns))
    if request.save_posterior:
        with whole_file(request.out / "posterior.npz") as path, path.open("wb") as stream:
            weights = np.exp(np.asarray(run.state.log_weights))
            np.savez(stream, particles=np.asarray(run.state.particles), weights=weights)
    write_text(request.out / "metrics.json", json.dumps(results, indent=2, allow_nan=False) + "\n")
    return results


def _prepare(request: RunRequest, data: Dataset) -> tuple[Run, Predictor]:
    """Build network, run and predictor; compiling happens here."""
    settings, make_network = request.settings, NETWORKS[request.network]
    if request.batch_norm:
        reference = jnp.asarray(data.train_x[: settings.batch_size])
        model = make_model(make_network(batch_norm=True), reference)
        # The statistics are the minibatch's own, so it must not be cut any further.
        settings = replace(settings, micro_batch=settings.batch_size)
    else:
        model = make_model(make_network())
    started = time.perf_counter()
    compiled = choose_gradients(request.gradients, request.network, request.batch_norm)
    building_s = time.perf_counter() - started
    run = Run(
        model.log_likelihood,
        model.prior,
        data.train_x,
        data.train_y,
        settings,
        request.seed,
        window_sums=compiled and compiled.window_sums,
    )
    run.compile_s += building_s
    logits = compiled.logits if compiled else mapped(model.logits, run.algorithm.target)
    return run, Predictor(logits, data.test_x, run.state.particles, run.state.log_weights)


def _iterate(
    request: RunRequest, data: Dataset, run: Run, predictor: Predictor, view: ProgressView
) -> Evaluations:
    """Go to the end in blocks of about a second, evaluating on the way."""
    n_iterations = request.settings.iterations
    evaluations = Evaluations(
        {name: [None] * n_iterations for name in ("test_log_likelihood", "test_accuracy")}
    )
    block = 1
    while not run.is_finished:
        first, seconds = run.iteration, run.runtime_s
        run.advance(min(block, request.evaluate_every - first % request.evaluate_every))
        per_iteration = (run.runtime_s - seconds) / (run.iteration - first)
        block = max(1, min(4 * block, int(BLOCK_SECONDS / per_iteration)))
        if run.iteration % request.evaluate_every == 0 or run.is_finished:
            evaluations.take(predictor, run, data.test_y)
        last = run.last_row()
        accuracy = evaluations.last.get("test_accuracy")
        view.step(
            Status(run.iteration, last["batch_size"], last["beta"], last["ess"], accuracy, run.seconds_left())
        )
    return evaluations


def _csv(columns: dict[str, Any]) -> str:
    """Rows of the trace; numbers in the shortest form that reads back the same, None as nothing."""
    rows = zip(*(_cells(column) for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n"


def _cells(column: Any) -> list[str]:
    if isinstance(column, np.ndarray) and column.dtype == bool:
        column = column.astype(int)
    return ["" if value is None else str(value) for value in column]


def _peak_memory_mb() -> float:
    """Peak of the device's own memory, or of the process where the device is the CPU."""
    statistics = jax.devices()[0].memory_stats()
    if statistics and "peak_bytes_in_use" in statistics:
        return statistics["peak_bytes_in_use"] / 2**20
    unit = 2**20 if platform.system() == "Darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("jax", "jaxlib", "flax", "numpy")}
    return {"smcda": __version__, "python": platform.python_version(), **packages}
