"""How the work is done on this machine: which code, in which portions, on which devices.

The outcome is one `BatchLikelihood`, which is all that the sampler sees. Results do not depend on these
choices beyond rounding; only time and memory do.
"""

import logging
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, SingleDeviceSharding
from jaxtyping import Array

from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models.base import FastCode, Model, ParticleOutputs, reparametrised
from smcda.models.flat import Flattened
from smcda.models.native import NotBuilt
from smcda.parallel.sharding import choose_devices, shard_likelihood, shard_outputs
from smcda.smc.batches import ShuffledData, Window
from smcda.smc.likelihood import BatchLikelihood, Particles, xla_likelihood

log = logging.getLogger(__name__)

PRECISIONS = {"float32": "highest", "tf32x3": "TF32_TF32_F32_X3", "tf32": "TF32_TF32_F32"}
"""What JAX calls the precisions of matrix products; its own default is TF32 where the device has it."""

FIRST_WITH_TF32 = 8
"""Compute capability of Ampere."""

CPU_CHUNK = 620_000
"""Parameters of all particles at once on a CPU: ten LeNet-5s, the most that was timed."""

TRIAL_PARTICLES = 32
"""Particles in the program from which the memory of one is taken."""

USABLE = 0.9
"""Share of a device's memory that is planned for; its allocator leaves gaps."""

COPIES = 12
"""Of all particles, that a move holds at once: positions, momenta, gradients, and their new values."""


class ExecutionPlan(NamedTuple):
    """The likelihood as the sampler calls it, and what it was made of.

    `gradients` names the code: a native library, or `xla`. `outputs` gives the predictions of all particles.
    `mesh` has the devices that share the particles, and is None where there is only one. `precision` is what
    JAX calls that of matrix products.
    """

    likelihood: BatchLikelihood
    outputs: ParticleOutputs | None
    gradients: str
    micro_batch: int
    particle_chunk: int
    mesh: Mesh | None
    n_devices: int
    precision: str


def make_plan(
    model: Model,
    flat: Flattened,
    config: SamplerConfig,
    x: Any,
    y: Any,
    gradients: str = "auto",
    devices: Sequence[Any] | None = None,
    memory: int | None = None,
) -> ExecutionPlan:
    """Plan a run of `model`, whose flattened prior is `flat`; `gradients` is auto, native or xla.

    Of the data only shapes and types matter. `devices` are those that JAX sees and `memory` what one of them
    has for us, unless given.
    """
    visible = list(devices or jax.devices())
    device = visible[0]
    mesh = choose_devices(config.devices, config.particles, visible)
    n_devices = 1 if mesh is None else mesh.size
    n_particles = config.particles // n_devices
    micro_batch = model.minibatch or config.micro_batch or choose_micro_batch(config, device)
    precision = choose_precision(config.precision, device)

    def likelihood_of(chunk: int) -> BatchLikelihood:
        return xla_likelihood(model.log_likelihood, flat.unravel, micro_batch, chunk)

    fast = choose_fast_code(model, gradients, device)
    if config.particle_chunk:
        chunk = config.particle_chunk
    elif device.platform == "cpu":
        chunk = few_at_once(n_particles, flat.n_parameters)
    elif (room := memory or device_memory(device)) is None:
        chunk = n_particles
    else:
        trial = min(n_particles, TRIAL_PARTICLES)
        with jax.default_matmul_precision(precision):
            each = temporary_bytes(likelihood_of(trial), (trial, flat.n_parameters), x, y, device) / trial
        data = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves((x, y)))
        chunk = fitting_chunk(n_particles, flat.n_parameters, room - data, each)
    likelihood, outputs, name = likelihood_of(chunk), None, "xla"
    if model.predict is not None:
        outputs = shard_outputs(particle_outputs(model, flat, chunk, precision), mesh)
    if fast is not None:
        likelihood, outputs, name = reparametrised(fast, flat)
    likelihood = shard_likelihood(likelihood, mesh)
    return ExecutionPlan(likelihood, outputs, name, micro_batch, chunk, mesh, n_devices, precision)


def few_at_once(n_particles: int, n_parameters: int) -> int:
    """Particles at once on a CPU."""
    return min(n_particles, max(1, CPU_CHUNK // n_parameters))


def choose_precision(name: str, device: Any) -> str:
    """What JAX calls the precision of matrix products; a CPU has float32 only, which needs no choice."""
    if device.platform == "cpu":
        name = "float32"
    major, _, _ = str(getattr(device, "compute_capability", "")).partition(".")
    if name != "float32" and not (major.isdigit() and int(major) >= FIRST_WITH_TF32):
        raise BadInput(
            f"precision is {name}, but {device.device_kind} has no TF32, which came with NVIDIA's Ampere: "
            "choose float32"
        )
    return PRECISIONS[name]


def choose_micro_batch(config: SamplerConfig, device: Any) -> int:
    """Examples at once: few on a CPU, whole minibatches on a GPU.

    It divides both batch sizes where it can, so that no slice is half empty.
    """
    common = math.gcd(*config.batches)
    most = 50 if device.platform == "cpu" else 500
    micro_batch = max(divisor for divisor in range(1, min(common, most) + 1) if common % divisor == 0)
    wanted = min(most, config.batches[0])
    return wanted if micro_batch < wanted / 4 else micro_batch


def device_memory(device: Any) -> int | None:
    """Bytes that the device has for us; None where it does not say, as CPUs don't."""
    return (device.memory_stats() or {}).get("bytes_limit") if device.platform != "cpu" else None


def fitting_chunk(n_particles: int, n_parameters: int, memory: float, bytes_each: float) -> int:
    """Particles at once on a device: all, or else a power of two that fits, in chunks of nearly equal size.

    `bytes_each` is what evaluating one particle takes, beside the copies of all particles that a move holds.
    A power of two because `bytes_each` may differ a little between two compilations of one program, and a
    run that resumes must find the chunks that it had.
    """
    free = USABLE * memory - COPIES * 4 * n_parameters * n_particles
    most = max(1, int(free / max(bytes_each, 1)))
    if most >= n_particles:
        return n_particles
    n_chunks = -(-n_particles // 2 ** int(math.log2(most)))
    return -(-n_particles // n_chunks)


def temporary_bytes(
    likelihood: BatchLikelihood, particles: tuple[int, int], x: Any, y: Any, device: Any
) -> int:
    """Memory that the compiled likelihood needs beside its arguments and results, as far as XLA says."""
    shape: Any = partial(jax.ShapeDtypeStruct, sharding=SingleDeviceSharding(device))
    index, number = shape((), jnp.int32), shape((), jnp.float32)
    x, y = jax.tree.map(lambda a: shape(a.shape, jax.dtypes.canonicalize_dtype(a.dtype)), (x, y))
    data, window = ShuffledData(x, y, index), Window(index, index, index, number)
    lowered = jax.jit(likelihood).lower(shape(particles, jnp.float32), data, window)
    analysis = lowered.compile().memory_analysis()
    return 0 if analysis is None else analysis.temp_size_in_bytes


def particle_outputs(
    model: Model, flat: Flattened, chunk: int, precision: str = PRECISIONS["float32"]
) -> ParticleOutputs:
    """Outputs of all particles on some examples, as many particles at once as for their gradients."""

    def outputs(particles: Particles, x: Any) -> Any:
        def one(particle: Array) -> Any:
            return model.outputs(flat.unravel(particle), x)

        with jax.default_matmul_precision(precision):
            if chunk >= len(particles):
                return jax.vmap(one)(particles)
            return jax.lax.map(one, particles, batch_size=chunk)

    return outputs


def choose_fast_code(model: Model, gradients: str, device: Any) -> FastCode | None:
    """Native code on a CPU where the model has some, else None: XLA's own gradients.

    ``auto`` does without a compiler, and says so; ``native`` does not.
    """
    if gradients == "xla":
        return None
    if model.native is None or device.platform != "cpu":
        if gradients == "native":
            raise BadInput(
                "gradients native run on a CPU, for the built-in networks only: choose gradients xla"
            )
        return None
    try:
        return model.native()
    except NotBuilt as error:
        if gradients == "native":
            raise
        log.warning("%s; using XLA's gradients, several times slower", error)
        return None
