"""What one particle costs per image, and from that how long the published study would take elsewhere.

XLA says of a compiled program how many floating-point operations it does and how many bytes its operations
read and write. A machine then needs at least the longer of two times: arithmetic at the speed of its matrix
product, traffic at the speed of its memory. Here both can be checked against the clock. For GPUs the same
calculation, with their makers' figures and the share of the peak that this machine should reach, is a
prediction and marked as such: caches make it pessimistic, kernel launches and small layers optimistic.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from smcda.bench.flops import gradient_flops
from smcda.bench.timing import Case, Sizes, interleaved, matrix_product
from smcda.config import ADAPTIVE, SamplerConfig
from smcda.models.lenet import MODELS, make_model
from smcda.models.priors import flattened
from smcda.smc.cost import gradient_evaluations
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import SCHEDULES

Figures = dict[str, Any]
SHARE_OF_PEAK = 0.45


class Machine(NamedTuple):
    """Peak single-precision operations per second (no tensor cores), memory bytes per second, devices."""

    flops: float
    bandwidth: float
    devices: int = 1


# Makers' data sheets: A100 SXM 40 GB, H100 SXM.
GPUS = {
    "A100": Machine(19.5e12, 1.555e12),
    "H100": Machine(67e12, 3.35e12),
    "4 x A100": Machine(19.5e12, 1.555e12, devices=4),
}


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
    return {"cost_model": networks, "predicted_hours": predicted_hours(networks)}


def program_cost(network: str, n_particles: int, n_images: int) -> tuple[float, float]:
    """Operations and bytes of XLA's gradient program per particle and image, by its own analysis."""
    model = make_model(network)
    flat = flattened(model.prior)

    def value(particle: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum(model.log_likelihood(flat.unravel(particle), x, y))

    gradient = jax.jit(jax.vmap(jax.value_and_grad(value), in_axes=(0, None, None)))
    shapes = (
        jax.ShapeDtypeStruct((n_particles, flat.n_parameters), jnp.float32),
        jax.ShapeDtypeStruct((n_images, 28, 28), jnp.uint8),
        jax.ShapeDtypeStruct((n_images,), jnp.uint8),
    )
    analysis = gradient.lower(*shapes).compile().cost_analysis() or {}
    work = n_particles * n_images
    return analysis["flops"] / work, analysis["bytes accessed"] / work


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


def predicted_hours(networks: Figures, seeds: int = 5) -> dict[str, float]:
    """Hours of the published grid: both datasets, every scheme and kernel, five seeds."""
    evaluations = seeds * sum(paper_evaluations().values())
    hours = {}
    for name, machine in GPUS.items():
        seconds = sum(
            max(
                costs["useful_flops"] / (SHARE_OF_PEAK * machine.flops),
                costs["xla_bytes"] / machine.bandwidth,
            )
            for costs in networks.values()
        )
        hours[name] = evaluations * seconds / machine.devices / 3600
    return hours
