"""How the work is done on this machine: which code, in which portions, on which devices.

The outcome is one `BatchLikelihood`, which is all that the sampler sees. Results do not depend on these
choices beyond rounding; only time and memory do.
"""

import logging
import math
from typing import NamedTuple

import jax
from jax.sharding import Mesh

from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models.base import FastCode, Model, ParticleOutputs
from smcda.models.native import NotBuilt
from smcda.models.priors import Flattened
from smcda.parallel.sharding import choose_devices, shard_likelihood
from smcda.smc.likelihood import BatchLikelihood, xla_likelihood

log = logging.getLogger(__name__)


class ExecutionPlan(NamedTuple):
    """The likelihood as the sampler calls it, and what it was made of.

    `gradients` names the code: a native library, or `xla`. `outputs` gives the predictions of all particles.
    `mesh` has the devices that share the particles, and is None where there is only one.
    """

    likelihood: BatchLikelihood
    outputs: ParticleOutputs | None
    gradients: str
    micro_batch: int
    particle_chunk: int
    mesh: Mesh | None
    n_devices: int


def make_plan(model: Model, flat: Flattened, config: SamplerConfig, gradients: str = "auto") -> ExecutionPlan:
    """Plan a run of `model`, whose flattened prior is `flat`; `gradients` is auto, native or xla."""
    # Adjusted moves on several devices were seen to wait for each other for ever: only where asked for.
    requested = config.devices or (1 if config.adjusted else None)
    mesh = choose_devices(requested, config.particles)
    n_devices = 1 if mesh is None else mesh.size
    micro_batch = model.minibatch or config.micro_batch or choose_micro_batch(config)
    chunk = config.particle_chunk or choose_particle_chunk(config.particles // n_devices, flat.n_parameters)
    outputs, predict = None, model.predict
    if predict is not None:
        outputs = jax.vmap(lambda particle, x: predict(flat.unravel(particle), x), in_axes=(0, None))
    likelihood, name = xla_likelihood(model.log_likelihood, flat.unravel, micro_batch, chunk), "xla"
    if fast := choose_fast_code(model, gradients):
        likelihood, outputs, name = fast
    likelihood = shard_likelihood(likelihood, mesh)
    return ExecutionPlan(likelihood, outputs, name, micro_batch, chunk, mesh, n_devices)


def choose_micro_batch(config: SamplerConfig) -> int:
    """Examples at once: few on a CPU, whole minibatches on a GPU.

    It divides both batch sizes where it can, so that no slice is half empty.
    """
    common = math.gcd(*config.batches)
    most = 50 if jax.default_backend() == "cpu" else 500
    micro_batch = max(divisor for divisor in range(1, min(common, most) + 1) if common % divisor == 0)
    wanted = min(most, config.batches[0])
    return wanted if micro_batch < wanted / 4 else micro_batch


def choose_particle_chunk(n_particles: int, n_parameters: int) -> int:
    """Particles at once: all on a GPU, about ten LeNet-5s (the most that was timed) on a CPU."""
    if jax.default_backend() != "cpu":
        return n_particles
    return min(n_particles, max(1, 620_000 // n_parameters))


def choose_fast_code(model: Model, gradients: str) -> FastCode | None:
    """Native code on a CPU where the model has some, else None: XLA's own gradients.

    ``auto`` does without a compiler, and says so; ``native`` does not.
    """
    if gradients == "xla":
        return None
    if model.native is None or jax.default_backend() != "cpu":
        if gradients == "native":
            raise BadInput(
                "gradients native run on a CPU, for the built-in networks only: choose --gradients xla"
            )
        return None
    try:
        return model.native()
    except NotBuilt as error:
        if gradients == "native":
            raise
        log.warning("%s; using XLA's gradients, several times slower", error)
        return None
