"""What a particle-image costs, and from that what the published study would take on machines not at hand.

XLA says of a compiled program how many floating-point operations it does and how many bytes its operations
read and write. A machine then needs at least the longer of two times: arithmetic at the speed of its matrix
product, traffic at the speed of its memory. Here both can be checked against the clock. For GPUs the same
reckoning, with their makers' figures and the share of the peak that is asked for on this one, is a
prediction and marked as such: caches make it pessimistic, kernel launches and small layers optimistic.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from smcda.bench.flops import gradient_flops
from smcda.bench.timing import Sizes, Subject, by_turns, matrix_product
from smcda.models.lenet import NETWORKS, make_model
from smcda.settings import Settings
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import SCHEMES
from smcda.smc.schedules.fixed import FIXED_SCHEMES, images_evaluated, most_of_smooth
from smcda.smc.target import make_target

Figures = dict[str, Any]
SHARE_OF_PEAK = 0.45


class Machine(NamedTuple):
    """Peak single-precision operations a second (no tensor cores), memory bytes a second, devices."""

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
    """Operations and bytes a particle-image by XLA, its bound on this machine, the clock, and predictions."""
    particles, batch = sizes.particles, sizes.batch
    product, product_flops = matrix_product(2048)
    numbers = jnp.ones(2**26 if batch > 100 else 2**20, jnp.float32)
    copy = jax.jit(lambda x: x + 1).lower(numbers).compile()
    networks: Figures = {}
    for network in NETWORKS:
        settings = Settings("constant", "ld", particles, batch_size=batch)
        subject = Subject(network, batch, settings, gradients="xla")
        calls = {
            "sweep": subject.sweep(batch),
            "product": product,
            "copy": lambda: copy(numbers),
        }
        best = by_turns(calls, min(3, sizes.rounds))
        flops, moved = program_cost(network, particles, subject.run.algorithm.layout.micro_batch)
        arithmetic = flops / (product_flops / best["product"])
        traffic = moved / (2 * numbers.nbytes / best["copy"])
        networks[network] = {
            "useful_flops": gradient_flops(network),
            "xla_flops": flops,
            "xla_bytes": moved,
            "bound_us": max(arithmetic, traffic) * 1e6,
            "xla_measured_us": best["sweep"] / (particles * batch) * 1e6,
        }
    return {"cost_model": networks, "predicted_hours": predicted_hours(networks)}


def program_cost(network: str, n_particles: int, n_images: int) -> tuple[float, float]:
    """Operations and bytes of XLA's gradient program, a particle-image, by its own analysis."""
    model = make_model(NETWORKS[network]())
    target = make_target(model.log_likelihood, model.prior)

    def value(flat: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum(model.log_likelihood(target.unravel(flat), x, y))

    gradient = jax.jit(jax.vmap(jax.value_and_grad(value), in_axes=(0, None, None)))
    shapes = (
        jax.ShapeDtypeStruct((n_particles, target.n_parameters), jnp.float32),
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
    counts = {}
    for scheme in SCHEMES:
        for kernel in KERNELS:
            settings = Settings(scheme, kernel, particles)
            schedule = FIXED_SCHEMES.get(scheme, most_of_smooth)(settings.annealing(n_data))
            counts[f"{scheme}.{kernel}"] = particles * images_evaluated(schedule, settings.sweeps)
    return counts


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
