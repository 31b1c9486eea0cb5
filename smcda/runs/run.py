"""The door: sample the posterior of any model, from Python, the command line or a workflow."""

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smcda._io import exclusive
from smcda._plugins import name_of
from smcda.config import SamplerConfig, cache_dir, check_run_options, checkpoints_beside
from smcda.data.dataset import Dataset, sha256
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.priors import PriorLike
from smcda.models.starts import Start
from smcda.runs import outputs
from smcda.runs.checks import check_data, check_foreign, check_like
from smcda.runs.execution import Callback, Execution, Task
from smcda.runs.loop import Previous
from smcda.runs.progress import ProgressView, choose_view
from smcda.runs.result import Result
from smcda.runs.signals import StopSignals
from smcda.runs.status import Status
from smcda.smc.batches import count
from smcda.smc.likelihood import LogLikelihood


def run(
    model: Model,
    data: Dataset | tuple[Any, Any],
    config: SamplerConfig | None = None,
    *,
    seed: int = 0,
    test: tuple[Any, Any] | None = None,
    ood: Any = None,
    start: Start | None = None,
    start_seed: int | None = None,
    shuffle: bool = True,
    out: str | Path | None = None,
    save_posterior: bool = True,
    overwrite: bool = False,
    checkpoint_dir: str | Path | None = None,
    checkpoint_every: float = 300.0,
    evaluate_every: int = 10,
    progress: bool = True,
    devices: int | None = None,
    gradients: str = "auto",
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Sample the posterior of a model; without a config nothing has to be tuned.

    Args:
        model: what to sample: `Model`, or `from_flax`.
        data: ``(x, y)``, arrays or pytrees of arrays with one row per example, or a `Dataset`; y may be None.
        config: how to sample; by default the adaptive sampler.
        seed: of the data's order and of every draw.
        test: ``(x, y)`` to be tested on; of a `Dataset` its own.
        ood: foreign inputs, for `ood_auroc_...` among the metrics: how well uncertainty tells them apart.
        start: where the first particles come from, if not from the prior.
        start_seed: of the first particles, if not `seed`.
        shuffle: whether the data may be put in a random order first.
        out: folder for `metrics.json`, `trace.csv` and `posterior.npz`; none are written without.
        save_posterior: whether `posterior.npz` is among them.
        overwrite: whether a finished run in that folder may be replaced.
        checkpoint_dir: where checkpoints are kept until the run is done, by default beside `out`. The same
            call resumes from them after a stop, and ends bit-identical. Without either folder there are none.
        checkpoint_every: seconds between checkpoints; 0 saves one only when a signal stops the run.
        evaluate_every: iterations between test evaluations.
        progress: whether to show a bar, or lines where nobody watches.
        devices: how many share the particles; by default as `SamplerConfig` says.
        gradients: ``auto``, ``native`` or ``xla``.
        callbacks: called with `Progress` about once a second; the run ends where one returns True.

    Doubts about the result are logged as warnings, and listed in its `diagnostics`.

    """
    check_run_options(
        seed=seed,
        start_seed=start_seed,
        checkpoint_every=checkpoint_every,
        evaluate_every=evaluate_every,
        gradients=gradients,
    )
    if not isinstance(model, Model):
        raise BadInput(
            f"model is of type {type(model).__name__}, but must be a Model: use from_flax for a Flax module, "
            "Model(predict, likelihood, prior) for a function, or sample for a log-likelihood"
        )
    name, x, y, sha, test = read_data(data, test)
    ood = check_foreign(model, x, test, ood)
    config = config or SamplerConfig()
    if not isinstance(config, SamplerConfig):
        raise BadInput(f"config is of type {type(config).__name__}, but must be a SamplerConfig")
    if start is not None and not isinstance(start, Start):
        raise BadInput(f"start is of type {type(start).__name__}, but must be a Start(sample, log_density)")
    if callable(callbacks) or not all(map(callable, callbacks)):
        raise BadInput("callbacks must be a list of functions: [function]")
    if devices is not None:
        config = dataclasses.replace(config, devices=devices)
    config = config.for_data(count(x))
    folder = None if out is None else Path(out)
    checkpoints = None if folder is None else checkpoints_beside(folder)
    checkpoints = checkpoints if checkpoint_dir is None else Path(checkpoint_dir)
    needs_identity = folder is not None or checkpoints is not None
    task = Task(
        model,
        x,
        y,
        config,
        seed,
        test,
        shuffle,
        start,
        start_seed,
        gradients=gradients,
        evaluate_every=evaluate_every,
        identity={
            "start_seed": start_seed,
            "shuffle": shuffle,
            "data_sha256": sha(),
            **identity_of_foreign(ood),
        }
        if needs_identity
        else {},
        about={"dataset": name, "model": name_of_model(model)},
        out=folder,
        save_posterior=save_posterior,
        checkpoints=checkpoints,
        checkpoint_every=checkpoint_every,
        callbacks=tuple(callbacks),
        ood=ood,
    )
    return perform(task, choose_view(not progress), overwrite=overwrite)


def sample(
    log_likelihood: LogLikelihood,
    prior: PriorLike,
    x: Any,
    y: Any,
    config: SamplerConfig | None = None,
    *,
    seed: int = 0,
    start: Start | None = None,
    shuffle: bool = True,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Sample the posterior of anything with a log-likelihood: `run` in its shortest form.

    Args:
        log_likelihood: ``(parameters, x, y)`` to the log-likelihood of each example of a slice.
        prior: what parameters are before the data, one of `smcda.priors` or a dictionary of them.
        x: inputs, one row per example.
        y: outputs, as many rows, or None.
        config: how to sample; by default the adaptive sampler, for which nothing has to be tuned.
        seed: of the data's order and of every draw.
        start: where the first particles come from, if not from the prior.
        shuffle: whether the data may be put in a random order first.
        progress: whether to show how it is going.
        callbacks: as in `run`.

    """
    model = Model.from_log_likelihood(log_likelihood, prior)
    return run(
        model, (x, y), config, seed=seed, start=start, shuffle=shuffle, progress=progress, callbacks=callbacks
    )


def extend(result: Result, x_new: Any, y_new: Any, *, seed: int | None, progress: bool) -> Result:
    """`Result.extend`."""
    if result.model is None or result.data is None:
        raise BadInput("extend needs model and data: Result.load(path, model=..., data=(x, y))")
    x, y = result.data
    new = check_data(x_new, y_new, "new ")
    both = jax.tree.map(lambda a, b: np.concatenate([a, b]), (x, y), check_like(new, (x, y)))
    particles = result.particles
    with np.errstate(divide="ignore"):
        log_weights = jax.numpy.asarray(np.log(result.weights))
    task = Task(
        result.model,
        both[0],
        both[1],
        SamplerConfig(particles=len(result.weights)).for_data(count(both[0])),
        result.metrics["seed"] + 1 if seed is None else seed,
        previous=Previous(particles, log_weights, count(x), result.log_evidence, result.log_evidence_error),
        about={name: result.metrics[name] for name in ("dataset", "model")},
    )
    return perform(task, choose_view(not progress))


def perform(task: Task, view: ProgressView, overwrite: bool = False) -> Result:
    """Do a task, keeping other processes out of its folder."""
    if task.out is not None:
        outputs.check_output(task.out, overwrite)
    if task.checkpoints is not None:
        outputs.check_folder("checkpoint_dir", task.checkpoints)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        # The next process need not compile the same program again; a choice of the user's own stays.
        jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    config = task.config
    title = f"{task.about['dataset']} {name_of(config.scheme)} {name_of(config.kernel)} seed {task.seed}"
    n_iterations = None if config.is_adaptive else config.iterations
    status = None if task.out is None else _status(task, task.out, n_iterations)
    with view(title, n_iterations) as report:
        execution = Execution(task, report, status.update if status else lambda **values: None)
        place = task.out or task.checkpoints
        with exclusive(place / ".lock", f"making {place}") if place else nullcontext():
            if task.out is not None:
                # Again, because another process may have finished it meanwhile.
                outputs.check_output(task.out, overwrite)
                outputs.remove_unfinished(task.out)
            with status or nullcontext():
                execution.resume()
                # Only now: until here a signal ends the process at once, and loses nothing.
                with StopSignals() if task.checkpoints else nullcontext(StopSignals()) as stop:
                    return execution.finish(stop)


def _status(task: Task, out: Path, n_iterations: int | None) -> Status:
    """The status file of a run, with what is known before it starts."""
    return Status(
        out,
        dataset=task.about["dataset"],
        scheme=name_of(task.config.scheme),
        kernel=name_of(task.config.kernel),
        seed=task.seed,
        particles=task.config.particles,
        iterations=n_iterations,
        n_train=count(task.x),
    )


def read_data(data: Any, test: Any) -> tuple[str, Any, Any, Any, Any]:
    """Name, checked inputs and outputs, a function for their checksum, and checked test data."""
    if isinstance(data, Dataset):
        name, test, known = data.name, data.test if test is None else test, data.sha256
        data = data.train
    else:
        name, known = "data", None
        if not isinstance(data, tuple) or len(data) != 2:
            raise BadInput("data must be a pair (x, y), or a Dataset; y may be None")
    x, y = check_data(*data)
    if test is not None:
        if not isinstance(test, tuple) or len(test) != 2:
            raise BadInput("test must be a pair (x, y)")
        test = check_like(check_data(*test, "test "), (x, y), "test ")

    def checksum() -> str:
        return checksum_of({"train": (x, y), "test": test}) if known is None else known

    return name, x, y, checksum, test


def name_of_model(model: Model) -> str:
    """What results call a model: the name of its function."""
    return name_of(model.predict or model.given_log_likelihood)


def checksum_of(arrays: Any) -> str:
    """SHA-256 of a pytree of arrays."""
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    return sha256({jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves})


def identity_of_foreign(ood: Any) -> dict[str, str]:
    """What names foreign inputs in a run's identity; nothing without."""
    return {} if ood is None else {"ood_sha256": checksum_of(ood)}
