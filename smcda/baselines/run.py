"""One run of a baseline: choose by validation, train or sample, score, write the files of any run.

There are no checkpoints: a run takes minutes, and one that was stopped starts again.
"""

import dataclasses
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax

from smcda._io import exclusive
from smcda.baselines.config import BaselineConfig, EnsembleConfig, SGHMCConfig
from smcda.baselines.execution import Execution
from smcda.config import RunConfig, cache_dir, check_run_options
from smcda.data.dataset import Dataset
from smcda.models.base import Model
from smcda.runs import outputs
from smcda.runs.checks import check_foreign
from smcda.runs.progress import ProgressView, choose_view
from smcda.runs.result import Result
from smcda.runs.run import identity_of_foreign, name_of_model, read_data
from smcda.runs.runner import read_problem

OF_THE_PRIOR = ("prior_scale",)
OF_THE_SAMPLER = ("start", "start_seed", "batch_norm")


@dataclasses.dataclass(frozen=True)
class Task:
    """Everything that a baseline needs to know, as `smcda.runs.execution.Task` for the sampler."""

    model: Model
    x: Any
    y: Any
    config: BaselineConfig
    seed: int = 0
    test: tuple[Any, Any] | None = None
    ood: Any = None
    gradients: str = "auto"
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    out: Path | None = None
    save_posterior: bool = False


def deep_ensemble(
    model: Model, data: Dataset | tuple[Any, Any], config: EnsembleConfig | None = None, **options: Any
) -> Result:
    """Train a deep ensemble; its `Result` has the networks as equally weighted particles.

    Args:
        model: what to train; its prior counts only where it has no Flax layers, and networks start from it.
        data: ``(x, y)``, or a `Dataset`.
        config: how to train.
        options: as `sghmc` has them.

    """
    return _from_python(model, data, config or EnsembleConfig(), **options)


def sghmc(
    model: Model, data: Dataset | tuple[Any, Any], config: SGHMCConfig | None = None, **options: Any
) -> Result:
    """Sample a posterior by cyclical stochastic-gradient HMC; samples are equally weighted particles.

    Args:
        model: what to sample: the same prior and likelihood as `smcda.run` takes.
        data: ``(x, y)``, or a `Dataset`.
        config: how to sample.
        options: `seed`, `test`, `ood`, `out`, `save_posterior`, `overwrite`, `progress` and `gradients`,
            which mean what they mean to `smcda.run`.

    """
    return _from_python(model, data, config or SGHMCConfig(), **options)


def _from_python(
    model: Model,
    data: Dataset | tuple[Any, Any],
    config: BaselineConfig,
    *,
    seed: int = 0,
    test: tuple[Any, Any] | None = None,
    ood: Any = None,
    out: str | Path | None = None,
    save_posterior: bool = True,
    overwrite: bool = False,
    progress: bool = True,
    gradients: str = "auto",
) -> Result:
    check_run_options(seed=seed, gradients=gradients)
    name, x, y, sha, test = read_data(data, test)
    ood = check_foreign(model, x, test, ood)
    folder = None if out is None else Path(out)
    identity = {} if folder is None else {"data_sha256": sha(), **identity_of_foreign(ood)}
    about = {"dataset": name, "model": name_of_model(model)}
    task = Task(
        model, x, y, config, seed, test, ood, gradients, identity, about, folder, save_posterior
    )  # fmt: skip
    return perform(task, choose_view(not progress), overwrite)


def execute(run: RunConfig, config: BaselineConfig, view: ProgressView) -> Result:
    """Do the baseline that the command line describes; its files are in `run.out`."""
    outputs.check_output(run.out, run.overwrite)
    problem = read_problem(run)
    unread = OF_THE_SAMPLER + OF_THE_PRIOR * (not config.reads_prior)
    identity, about = (
        {name: value for name, value in each.items() if name not in unread}
        for each in (problem.identity, problem.about)
    )
    model, x, y, test, ood = problem[:5]
    task = Task(
        model, x, y, config, run.seed, test, ood, run.gradients, identity, about, run.out, run.save_posterior
    )  # fmt: skip
    return perform(task, view, run.overwrite)


def perform(task: Task, view: ProgressView, overwrite: bool = False) -> Result:
    """Do a task, keeping other processes out of its folder."""
    if task.out is not None:
        outputs.check_output(task.out, overwrite)
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    title = f"{task.about['dataset']} {task.config.name} seed {task.seed}"
    with view(title, None) as report:
        started = time.perf_counter()
        execution = Execution(task, report)
        place = task.out
        with exclusive(place / ".lock", f"making {place}") if place else nullcontext():
            if place is not None:
                outputs.check_output(place, overwrite)
                outputs.remove_unfinished(place)
            return execution.finish(started)
