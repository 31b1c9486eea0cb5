"""Count what the gradient programs move and compute on a GPU, and predict the hours of the published study.

Compiles them for the GPUs described in tests/gpu/targets, none of which has to be there; needs the packages
of the extra cuda-compile. `python tools/render.py` then writes the figures into docs/performance.md.

JAX_PLATFORMS=cpu python tools/count_gpu_programs.py
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from smcda._io import write_text
from smcda.bench import hlo
from smcda.bench.deviceless import GENERATED_PRODUCTS, LIBRARY_PRODUCTS, gpus
from smcda.bench.roofline import GPUS, REACHED, gradient_program, predicted_hours, seconds_at_least
from smcda.models.lenet import make_model
from smcda.parallel.plan import PRECISIONS

HERE = Path(__file__).parent
PARTICLES, IMAGES = 100, 500
NETWORKS = {"lenet5": False, "fashion_cnn": False, "fashion_cnn normalised": True}
STUDY = ("lenet5", "fashion_cnn normalised")
"""The networks of scale paper."""

PROGRAMS = {
    "library": ("float32", LIBRARY_PRODUCTS),
    "generated": ("float32", GENERATED_PRODUCTS),
    "generated tf32x3": ("tf32x3", GENERATED_PRODUCTS),
}
CANDIDATES = {
    "float32": ("library", "generated"),
    "tf32x3": ("generated tf32x3",),
    "tf32": ("library", "generated"),
}
"""Which of these programs may run under each precision; only the choice of units tells tf32 from float32."""


def kernels(network: str, program: str, gpu: str) -> list[tuple[int, int]]:
    """Bytes and operations of each kernel."""
    reference = jnp.zeros((IMAGES, 28, 28), jnp.uint8) if NETWORKS[network] else None
    model = make_model(network.split()[0], reference=reference)
    target = gpus((HERE.parent / "tests" / "gpu" / "targets" / f"{gpu.lower()}.txt").read_text())[0]
    gradient, shapes = gradient_program(model, PARTICLES, IMAGES, SingleDeviceSharding(target))
    precision, options = PROGRAMS[program]
    with jax.default_matmul_precision(PRECISIONS[precision]):
        lowered = gradient.lower(*shapes)
    found = hlo.parse(lowered.compile(compiler_options=options).as_text())
    print(f"{gpu}: {network}, {program}", flush=True)
    return [(kernel.bytes, kernel.flops) for kernel in found.kernels(found.entry)]


def main() -> None:
    """Write tools/gpu.json."""
    work = PARTICLES * IMAGES
    counted = {(n, p): kernels(n, p, "A100") for n in NETWORKS for p in PROGRAMS}
    assert kernels("lenet5", "library", "H100") == counted["lenet5", "library"], "count each GPU by itself"
    programs = {
        network: {
            program: {
                "kernels": len(counted[network, program]),
                "products": sum(flops > 0 for _, flops in counted[network, program]),
                "bytes": sum(moved for moved, _ in counted[network, program]) / work,
                "flops": sum(flops for _, flops in counted[network, program]) / work,
            }
            for program in PROGRAMS
        }
        for network in NETWORKS
    }
    evaluation: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    hours: dict[str, dict[str, dict[str, float]]] = {}
    for name, gpu in GPUS.items():
        for precision, candidates in CANDIDATES.items():
            for reached in REACHED:
                # At best the faster of the candidates runs, at worst the slower.
                choose = min if reached == "bound" else max
                micro = {
                    network: 1e6
                    / work
                    * choose(
                        seconds_at_least(counted[network, program], gpu, precision, reached)
                        for program in candidates
                    )
                    for network in NETWORKS
                }
                evaluation.setdefault(name, {}).setdefault(precision, {})[reached] = micro
                total = predicted_hours(1e-6 * micro[network] for network in STUDY)
                hours.setdefault(name, {}).setdefault(precision, {})[reached] = total
    figures = {"programs": programs, "microseconds_per_evaluation": evaluation, "hours": hours}
    write_text(HERE / "gpu.json", json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
