"""A run's programs for a GPU that is not there: XLA's CUDA compiler needs only the facts of the device.

Arguments are shapes with a place on the device instead of values, so nothing is computed. Needs the packages
of the extra ``cuda-compile``; without them `jax.export` still lowers the programs for CUDA.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from smcda.config import SamplerConfig
from smcda.models.base import Model
from smcda.models.flat import flattened
from smcda.parallel.plan import ExecutionPlan, make_plan
from smcda.parallel.sharding import state_sharding
from smcda.runs.evaluation import slice_by_slice
from smcda.runs.loop import run_block
from smcda.runs.programs import begin, empty_trace, make_kernel, make_params
from smcda.smc.batches import ShuffledData
from smcda.smc.sampler import SMCState
from smcda.smc.schedules import make_schedule

LIBRARY_PRODUCTS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Compiler options: all products by cuBLAS. Which kernel is fastest is found out on a device only."""

GENERATED_PRODUCTS = {"xla_gpu_autotune_level": 0}
"""Compiler options: products by kernels that XLA writes itself (Triton), wherever it can."""

PIXELS, LABEL = jax.ShapeDtypeStruct((28, 28), jnp.uint8), jax.ShapeDtypeStruct((), jnp.uint8)


class AnyGPU(NamedTuple):
    """Stands for a GPU where programs are only lowered, by `jax.export`, which needs no target."""

    platform: str = "gpu"
    device_kind: str = "any GPU"
    compute_capability: str = "8.0"

    def memory_stats(self) -> None:
        """Nothing is known of it."""


class Program(NamedTuple):
    """A jitted function, the shapes of its arguments and the precision of its products."""

    function: Any
    arguments: tuple[Any, ...]
    precision: str

    def export(self) -> str:
        """StableHLO of the function for CUDA; needs no compiler of it."""
        with jax.default_matmul_precision(self.precision):
            return jax.export.export(self.function, platforms=["cuda"])(*self.arguments).mlir_module()

    def compile(self, **options: Any) -> Any:
        """Compile for the devices on which the arguments are placed."""
        with jax.default_matmul_precision(self.precision):
            lowered = self.function.lower(*self.arguments)
        return lowered.compile(compiler_options=options)


class Programs(NamedTuple):
    """The programs of a run, the start, a block of iterations and the predictive, and their plan."""

    start: Program
    block: Program
    predict: Program | None
    plan: ExecutionPlan


def gpus(description: str, n_devices: int = 1) -> list[Any]:
    """GPUs by a target description (the text of an XLA ``GpuTargetConfigProto``)."""
    from jax.experimental import topologies

    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # which would look for a driver
    options: Any = {"target_config": description, "topology": f"1x1x{n_devices}"}
    topology = topologies.get_topology_desc("", "cuda", **options)
    return list(topology.devices)


def programs(
    model: Model,
    config: SamplerConfig,
    n_data: int,
    devices: Sequence[Any],
    memory: int | None = None,
    x: Any = PIXELS,
    y: Any = LABEL,
) -> Programs:
    """The programs of a run on `devices`, each with so much memory; `x` and `y` are those of one example."""
    config = config.for_data(n_data)
    flat, schedule = flattened(model.joint_prior), make_schedule(config, n_data)
    x, y = (jax.ShapeDtypeStruct((n_data, *each.shape), each.dtype) for each in (x, y))
    plan = make_plan(model, flat, config, x, y, "xla", devices, memory)
    kernel = make_kernel(config, plan, flat, schedule)
    sharded, replicated = state_sharding(plan.mesh)
    if plan.mesh is None and not isinstance(devices[0], AnyGPU):
        sharded = replicated = SingleDeviceSharding(devices[0])
    particles = sharded.particles if isinstance(sharded, SMCState) else sharded

    def placed(tree: Any, sharding: Any = replicated) -> Any:
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), tree)

    n_stored = n_data + config.batches[1] + plan.micro_batch
    scalar: Any = jax.ShapeDtypeStruct((), jnp.int32)
    stored: Any = [jax.ShapeDtypeStruct((n_stored, *each.shape[1:]), each.dtype) for each in (x, y)]
    data = placed(ShuffledData(stored[0], stored[1], scalar))
    key = placed(jax.eval_shape(lambda: jax.random.key(0)))
    first, params = placed((schedule.first, make_params(config, schedule)))
    start = jax.jit(partial(begin, kernel, config), out_shardings=(sharded, particles, replicated))
    with jax.default_matmul_precision(plan.precision):
        state = jax.eval_shape(start, key, first, data)[0]
        trace = placed(empty_trace(config))
    state = (
        jax.tree.map(lambda sharding, part: placed(part, sharding), sharded, state)
        if isinstance(sharded, SMCState)
        else placed(state)
    )
    block = jax.jit(partial(run_block, kernel), donate_argnums=(1, 2), out_shardings=(sharded, replicated))
    until = placed(scalar)
    predict = None
    outputs, mixture = plan.outputs, model.likelihood and model.likelihood.predictive
    if outputs is not None and mixture is not None:
        slices = placed(jax.ShapeDtypeStruct((50, 200, *x.shape[1:]), x.dtype))

        def predictive(particles: Any, log_weights: Any, x: Any) -> Any:
            return mixture(outputs(particles, x), log_weights)

        function = jax.jit(partial(slice_by_slice, predictive))
        predict = Program(function, (state.particles, state.log_weights, slices), plan.precision)
    return Programs(
        Program(start, (key, first, data), plan.precision),
        Program(block, (key, state, trace, until, params, data), plan.precision),
        predict,
        plan,
    )
