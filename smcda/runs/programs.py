"""What a run compiles: the functions and numbers of its sampler, and the program that starts it."""

from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from smcda._plugins import call, look_up, name_of
from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models.flat import Flattened, described
from smcda.parallel.plan import ExecutionPlan
from smcda.parallel.sharding import replicator
from smcda.smc import adjusted
from smcda.smc import sampler as unadjusted
from smcda.smc.batches import ShuffledData, Window
from smcda.smc.kernels import KERNELS
from smcda.smc.resampling import RESAMPLERS, Resampler
from smcda.smc.sampler import MoveInfo, SMCInfo, SMCKernel, SMCParams, SMCState
from smcda.smc.schedules import Schedule
from smcda.smc.target import TARGETS, FlatStart


def make_kernel(
    config: SamplerConfig,
    plan: ExecutionPlan,
    flat: Flattened,
    schedule: Schedule,
    start: FlatStart | None = None,
) -> SMCKernel:
    """The functions that a config names."""
    return SMCKernel(
        plan.likelihood,
        flat.prior,
        schedule.next_window,
        look_up(KERNELS, config.kernel),
        _resampler(config),
        TARGETS[config.target],
        config.weight_target == "previous",
        schedule.next_beta,
        start,
        TARGETS["plain"] if config.weighting == "plain" else None,
        config.weighting == "none",
        replicator(plan.mesh),
    )


def _resampler(config: SamplerConfig) -> Resampler:
    """The resampler that a config names or holds; refuses one that does not give J ancestors."""
    resample: Resampler = look_up(RESAMPLERS, config.resampling)
    if resample in RESAMPLERS.values():
        return resample
    name, shape = name_of(config.resampling), (config.particles,)
    weights = jax.ShapeDtypeStruct(shape, jnp.float32)
    found = call(f"resampling {name}", jax.eval_shape, resample, jax.random.key(0), weights)
    if getattr(found, "shape", None) != shape or not jnp.issubdtype(found.dtype, jnp.integer):
        raise BadInput(
            f"resampling {name} gives {described(found)}, but must give {config.particles} whole numbers"
        )
    return resample


def make_params(config: SamplerConfig, schedule: Schedule) -> SMCParams:
    """The numbers that a config holds."""
    return SMCParams(
        jnp.asarray(config.step_size or 0, jnp.float32),
        jnp.asarray(config.leapfrog_steps, jnp.int32),
        schedule.params,
        jnp.asarray(config.max_moves, jnp.int32),
        jnp.asarray(config.final_moves, jnp.int32),
    )


def sampler_of(config: SamplerConfig) -> ModuleType:
    """The sampler with adjusted moves, or the one without."""
    return adjusted if config.adjusted else unadjusted


def begin(
    kernel: SMCKernel,
    config: SamplerConfig,
    key: PRNGKeyArray,
    first: Window,
    data: ShuffledData,
    *previous: Array,
) -> tuple[SMCState, Array, Array]:
    """Draw and weight the first particles; also the draws, and whether the prior has a gradient there.

    `previous` are particles and log-weights of a posterior to continue from, instead of draws.
    """
    if previous:
        state, draws = adjusted.resume_from(key, kernel, first, data, *previous)
    else:
        state, draws = sampler_of(config).init(key, kernel, first, data, config.particles)
    return state, draws, jnp.all(jnp.isfinite(jax.vmap(kernel.prior.gradient)(draws)))


def empty_trace(config: SamplerConfig) -> SMCInfo:
    """A trace of zeros, one row per iteration, with the types of what a step reports.

    Written down, because asking JAX for them would trace the whole step once more at every start.
    """
    whole: Any = np.int32
    real: Any = np.float32
    truth: Any = bool
    moves = MoveInfo(real, real, whole, whole, real, real) if config.adjusted else None
    row = SMCInfo(whole, real, real, truth, whole, real, real, whole, moves)
    return jax.tree.map(partial(np.zeros, config.iterations), row)
