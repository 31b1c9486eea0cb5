"""A run as the command line and the workflow describe it: from a `RunConfig` to a task."""

import hashlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import linen

from smcda._plugins import call, load_object
from smcda.config import FAN_IN, RunConfig, parse_options
from smcda.data.dataset import Dataset, check_images, load
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.flax import from_flax, is_nnx
from smcda.models.lenet import make_model
from smcda.models.likelihoods import LIKELIHOODS
from smcda.models.priors import of_scale
from smcda.models.starts import lecun
from smcda.runs import outputs
from smcda.runs.checks import check_data, check_foreign
from smcda.runs.execution import Task
from smcda.runs.progress import ProgressView
from smcda.runs.result import Result
from smcda.runs.run import perform

CHOSEN = ("model", "model_options", "likelihood", "batch_norm", "prior_scale", "start", "start_seed")
"""Options of a run, beside the sampler's, on which its result depends."""


class Problem(NamedTuple):
    """What a config names, read and checked: data, model, and what identifies them."""

    model: Model
    x: Any
    y: Any
    test: tuple[Any, Any] | None
    ood: Any
    identity: dict[str, Any]
    about: dict[str, Any]


def execute(config: RunConfig, view: ProgressView) -> Result:
    """Do the run that a config describes; its files are in `config.out`."""
    # Before anything is read: these mistakes take no time to find.
    outputs.check_output(config.out, config.overwrite)
    outputs.check_folder("checkpoint_dir", config.checkpoints)
    problem = read_problem(config)
    assert config.sampler is not None
    task = Task(
        problem.model,
        problem.x,
        problem.y,
        config.sampler.for_data(len(problem.x)),
        config.seed,
        problem.test,
        start=lecun(problem.model) if config.start == "lecun" else None,
        start_seed=config.start_seed,
        gradients=config.gradients,
        evaluate_every=config.evaluate_every,
        identity=problem.identity,
        about=problem.about,
        out=config.out,
        save_posterior=config.save_posterior,
        checkpoints=config.checkpoints,
        checkpoint_every=config.checkpoint_every,
        ood=problem.ood,
    )
    return perform(task, view, overwrite=config.overwrite)


def read_problem(config: RunConfig) -> Problem:
    """Read data and model; refuses what does not fit together."""
    data = load(config.data)
    assert config.sampler is not None
    if config.is_built_in:
        data = check_images(str(config.data), data)
    x, y = check_data(*data.train, "train_")
    test = None if data.test is None else check_data(*data.test, "test_")
    batch_size = config.sampler.for_data(len(x)).batches[0]
    model = built_in(config, data, batch_size) if config.is_built_in else users_own(config, x, y)
    identity = {name: getattr(config, name) for name in CHOSEN}
    identity["model_options"] = list(config.model_options)
    identity |= {
        "data_sha256": data.sha256,
        "model_sha256": None if config.is_built_in else source_hash(config.model),
    }
    about, foreign = {"dataset": data.name}, None
    if config.ood is not None:
        ood = load(config.ood)
        if ood.test_x is None:
            raise BadInput(f"ood {config.ood} has no test_x: choose a dataset that has, or leave it out")
        foreign = check_foreign(model, x, test, ood.test_x)
        about["ood"], identity["ood_sha256"] = ood.name, ood.sha256
    return Problem(model, x, y, test, foreign, identity, about | identity)


def built_in(config: RunConfig, data: Dataset, batch_size: int) -> Model:
    """One of the package's networks."""
    reference = jnp.asarray(data.train_x[:batch_size]) if config.batch_norm else None
    assert config.prior_scale is not None
    return make_model(config.model, config.prior_scale, reference)


def users_own(config: RunConfig, x: Any, y: Any) -> Model:
    """What the user's factory makes of the first example: a `Model`, or a Flax module to be made one."""
    factory = load_object(config.model)
    made = call(f"model {config.model}", factory, x[:1], **parse_options(config.model_options))
    if isinstance(made, Model):
        for name in ("likelihood", "prior_scale"):
            if getattr(config, name) is not None:
                raise BadInput(
                    f"{name} is for a Flax module, but {config.model} gives a Model with one: leave it out"
                )
        return made
    if not (isinstance(made, linen.Module) or is_nnx(made)):
        found = f"the class {made.__name__}" if isinstance(made, type) else type(made).__name__
        raise BadInput(f"model {config.model} gives {found}, not a Flax module or a smcda.Model")
    name = config.likelihood
    if name is None:
        if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
            raise BadInput(
                f"train_y is {y.dtype} {y.shape}, not one whole number per example: say what the outputs "
                f"mean by likelihood, one of {', '.join(LIKELIHOODS)}"
            )
        name = "categorical"
    return call(
        f"model {config.model}",
        from_flax,
        made,
        x,
        LIKELIHOODS[name](),
        of_scale(FAN_IN if config.prior_scale is None else config.prior_scale),
    )


def source_hash(reference: str) -> str | None:
    """SHA-256 of the file in which a user's model is written; it has been imported."""
    place = reference.rpartition(":")[0]
    path = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None)
    return None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()
