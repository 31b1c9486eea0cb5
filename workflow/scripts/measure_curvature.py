r"""How sharp the mean loss is along a run, against what leapfrog can bear.

On a quadratic, leapfrog with step h stays bounded only while ``h^2 N lambda < 4``, lambda being the largest
eigenvalue of the Hessian of the mean loss; beyond it every step multiplies the error. That holds for any
number of steps, so that LD and HMC have the limit in common, and LD with 3h has a ninth of it. The eigenvalue
is found by power iteration on Hessian-vector products, at the particle with the largest weight.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pandas as pd
from jaxtyping import Array
from lib.script import run_script
from lib.study import resolve

from smcda.config import RunConfig
from smcda.data.dataset import load
from smcda.models.starts import lecun
from smcda.parallel.gpu_lock import reserve_gpus
from smcda.runs.fingerprint import provenance
from smcda.runs.loop import Run
from smcda.runs.runner import built_in, users_own

IMAGES, SLICE = 2_000, 500  # a slice is a minibatch, where that is normalised by its own statistics
LOOKS, PRODUCTS = 10, 25
RECORDED = ("dataset", "scheme", "kernel", "seed", "prior_scale", "start", "batch_norm", "particles")
RECORDED += ("step_size", "n_train")


def largest_eigenvalue(loss: Callable[[Array], Any], at: Array, start: Array) -> tuple[Any, Array]:
    """Largest eigenvalue, by magnitude, of the Hessian of `loss`, and its vector, from `start` on."""

    def iterate(_: int, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        vector, _ = carry
        vector = vector / jnp.linalg.norm(vector)
        product = jax.jvp(jax.grad(loss), (at,), (vector,))[1]
        return product, vector @ product

    product, value = jax.lax.fori_loop(0, PRODUCTS, iterate, (start, jnp.zeros(())))
    return value, product


def follow(config: RunConfig) -> list[dict[str, Any]]:
    """Sample, and measure the curvature before the first iteration and ten times on the way."""
    data, sampler = load(config.data), config.sampler
    sampler = sampler.for_data(len(data.train_x))
    if config.is_built_in:
        model = built_in(config, data, sampler.batch_size)
    else:
        model = users_own(config, *data.train)
    start = lecun(model) if config.start == "lecun" else None
    given = {"gradients": config.gradients, "start": start, "start_seed": config.start_seed}
    run = Run(model, data.train_x, data.train_y, sampler, config.seed, **given)
    size = sampler.batch_size if config.batch_norm else min(SLICE, len(data.train_x))
    n_slices = max(1, min(IMAGES, len(data.train_x)) // size)
    x, y = (
        jnp.asarray(array[: n_slices * size]).reshape(n_slices, size, *array.shape[1:])
        for array in (data.train_x, data.train_y)
    )

    def mean_loss(flat: Any) -> Any:
        def slice_loss(part: tuple[Any, Any]) -> Any:
            return -jnp.mean(model.log_likelihood(run.flat.unravel(flat), *part))

        return jnp.mean(jax.lax.map(slice_loss, (x, y)))

    look = jax.jit(lambda at, start: largest_eigenvalue(mean_loss, at, start))
    vector = jax.random.normal(jax.random.key(config.seed), run.state.particles[0].shape)
    settings = vars(config) | vars(sampler) | {"dataset": config.data.stem, "n_train": len(data.train_x)}
    about = {name: settings[name] for name in RECORDED} | provenance()
    rows = []
    for until in range(0, sampler.iterations + 1, max(1, sampler.iterations // LOOKS)):
        run.advance(until - run.iteration)
        best = run.state.particles[jnp.argmax(run.state.log_weights)]
        value, vector = look(best, vector)
        rows.append(about | {"iteration": until, "eigenvalue": f"{float(value):.6g}"})
    return rows


def main(job: Any) -> None:
    """Measure along the run of `constant` that the study itself has, on the same device."""
    study, run = resolve(job.config), job.wildcards
    paths = {"data": Path(job.input.data), "out": Path(job.output.csv)}
    config = study.run_config(run.dataset, "constant", run.kernel, seed=int(run.seed), **paths)
    device = study.settings["device"]
    with reserve_gpus(device, 1):  # JAX looks for devices when one is first used, not when it is imported
        if device == "cpu":
            os.environ["NPROC"] = str(job.threads)  # read by XLA when its CPU device is first used
            jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_compilation_cache_dir", job.config["compilation_cache"])
        pd.DataFrame(follow(config)).to_csv(config.out, index=False)


run_script(main, globals())
