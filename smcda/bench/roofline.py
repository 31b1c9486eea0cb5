"""What one particle costs per image, and how long the published study would take on GPUs.

XLA says of a compiled program how many floating-point operations it does and how many bytes its operations
read and write. A machine then needs at least the longer of two times: arithmetic at the speed of its matrix
product, traffic at the speed of its memory. On this machine both are checked against the clock. For GPUs the
same is done kernel by kernel with the program that XLA compiles for one (`smcda.bench.deviceless`), and is a
prediction: between a bound that no GPU beats and a cautious guess at what is reached of it.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from smcda.bench.flops import gradient_flops
from smcda.bench.timing import Case, Sizes, interleaved, matrix_product
from smcda.config import ADAPTIVE, SamplerConfig
from smcda.models.base import Model
from smcda.models.flat import flattened
from smcda.models.lenet import MODELS, make_model
from smcda.smc.cost import gradient_evaluations
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import SCHEDULES

Figures = dict[str, Any]


class GPU(NamedTuple):
    """Memory bytes and operations of matrix products per second, by their precision."""

    bandwidth: float
    float32: float
    tf32: float

    def rate(self, precision: str) -> float:
        """Operations of products per second; three TF32 products make one."""
        return {"float32": self.float32, "tf32x3": self.tf32 / 3, "tf32": self.tf32}[precision]


# Makers' data sheets: A100 SXM 40 GB, H100 SXM; TF32 without sparsity.
GPUS = {"A100": GPU(1.555e12, 19.5e12, 156e12), "H100": GPU(3.35e12, 67e12, 494.5e12)}

REACHED = {"bound": (1.0, 1.0), "cautious": (0.7, 0.45)}
"""Shares of bandwidth and of arithmetic that are reached: at best, and as long as nothing was timed."""


def cost_model(sizes: Sizes) -> Figures:
    """Operations and bytes per particle and image, the bound they set, the time measured, and predictions."""
    particles, batch = sizes.particles, sizes.batch
    product, product_flops = matrix_product(2048)
    numbers = jnp.ones(2**26 if batch > 100 else 2**20, jnp.float32)
    copy = jax.jit(lambda x: x + 1).lower(numbers).compile()
    networks: Figures = {}
    for network in MODELS:
        config = SamplerConfig("constant", "ld", particles, batch_size=batch)
        case = Case(network, batch, config, gradients="xla")
        calls = {
            "gradient": case.gradient(batch),
            "product": product,
            "copy": lambda: copy(numbers),
        }
        best = interleaved(calls, min(3, sizes.rounds))
        flops, moved = program_cost(network, particles, case.run.plan.micro_batch)
        arithmetic = flops / (product_flops / best["product"])
        traffic = moved / (2 * numbers.nbytes / best["copy"])
        networks[network] = {
            "useful_flops": gradient_flops(network),
            "xla_flops": flops,
            "xla_bytes": moved,
            "bound_us": max(arithmetic, traffic) * 1e6,
            "xla_measured_us": best["gradient"] / (particles * batch) * 1e6,
        }
    return {"cost_model": networks}


def program_cost(network: str, n_particles: int, n_images: int) -> tuple[float, float]:
    """Operations and bytes of XLA's gradient program per particle and image, by its own analysis."""
    gradient, shapes = gradient_program(make_model(network), n_particles, n_images)
    analysis = gradient.lower(*shapes).compile().cost_analysis() or {}
    work = n_particles * n_images
    return analysis["flops"] / work, analysis["bytes accessed"] / work


def gradient_program(
    model: Model, n_particles: int, n_images: int, sharding: Any = None
) -> tuple[Any, tuple[Any, ...]]:
    """Value and gradient of all particles over some images, and the shapes of its arguments."""
    flat = flattened(model.joint_prior)

    def value(particle: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum(model.log_likelihood(flat.unravel(particle), x, y))

    shape = partial(jax.ShapeDtypeStruct, sharding=sharding)
    return jax.jit(jax.vmap(jax.value_and_grad(value), in_axes=(0, None, None))), (
        shape((n_particles, flat.n_parameters), jnp.float32),
        shape((n_images, 28, 28), jnp.uint8),
        shape((n_images,), jnp.uint8),
    )


def paper_evaluations(particles: int = 100, n_data: int = 60_000) -> dict[str, int]:
    """Gradient evaluations (particle x image) of one published run of each scheme and kernel.

    Smooth data annealing decides on the way how much data it takes; it is counted as the most it can be.
    """
    return {
        f"{scheme}.{kernel}": gradient_evaluations(SamplerConfig(scheme, kernel, particles), n_data)
        for scheme in SCHEDULES
        if scheme != ADAPTIVE
        for kernel in KERNELS
    }


def seconds_at_least(
    kernels: Iterable[tuple[int, int]], gpu: GPU, precision: str, reached: str = "bound"
) -> float:
    """Time of kernels one after the other, each (bytes, operations) as long as the slower of its two."""
    memory, arithmetic = REACHED[reached]
    return sum(
        max(moved / (memory * gpu.bandwidth), flops / (arithmetic * gpu.rate(precision)))
        for moved, flops in kernels
    )


def predicted_hours(seconds_per_evaluation: Iterable[float], seeds: int = 5) -> float:
    """Hours of the published grid: every scheme and kernel, five seeds, for the network of each dataset."""
    return seeds * sum(paper_evaluations().values()) * sum(seconds_per_evaluation) / 3600
