"""A run as a sequence of compiled blocks of iterations.

The loop over iterations runs on the device; the host only says how many to do before it wants to
look. That number is traced, like everything else that varies, so a run compiles two programs (the
start and the block) whatever its scheme, and looking more or less often never changes the result.
"""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from smcda.config import SamplerConfig
from smcda.errors import BadInput, Diverged
from smcda.models.base import Model
from smcda.models.priors import Flattened, flattened
from smcda.parallel.plan import ExecutionPlan, make_plan
from smcda.parallel.sharding import state_sharding, to_host
from smcda.smc.batches import ShuffledData, to_device
from smcda.smc.kernels import KERNELS
from smcda.smc.resampling import RESAMPLERS
from smcda.smc.sampler import SMCInfo, SMCKernel, SMCParams, SMCState, init, step
from smcda.smc.schedules import Schedule, make_schedule


def run_block(
    kernel: SMCKernel,
    key: PRNGKeyArray,
    state: SMCState,
    trace: SMCInfo,
    until: Int[Array, ""],
    params: SMCParams,
    data: ShuffledData,
) -> tuple[SMCState, SMCInfo]:
    """Iterate up to iteration `until`, or until no particle has any weight left."""

    def unfinished(carry: tuple[SMCState, SMCInfo]) -> Array:
        state, _ = carry
        return (state.iteration < until) & jnp.any(state.log_weights > -jnp.inf)

    def iterate(carry: tuple[SMCState, SMCInfo]) -> tuple[SMCState, SMCInfo]:
        state, trace = carry
        row = state.iteration
        state, info = step(key, state, kernel, params, data)
        return state, jax.tree.map(lambda column, value: column.at[row].set(value), trace, info)

    return jax.lax.while_loop(unfinished, iterate, (state, trace))


class Assembly(NamedTuple):
    """Everything a run is made of, before its first particle is drawn."""

    kernel: SMCKernel
    params: SMCParams
    schedule: Schedule
    data: ShuffledData
    flat: Flattened
    plan: ExecutionPlan


def assemble(
    model: Model,
    x: Shaped[np.ndarray, "example ..."],
    y: Shaped[np.ndarray, "label ..."],
    config: SamplerConfig,
    seed: int,
    shuffle: bool = True,
    gradients: str = "auto",
) -> Assembly:
    """Look up what the config names, plan the work and put the data on the device."""
    if len(x) != len(y) or len(x) == 0:
        raise BadInput(f"x has {len(x)} examples and y {len(y)}: give as many of each, and at least one")
    schedule = make_schedule(config, len(x))
    flat = flattened(model.prior)
    plan = make_plan(model, flat, config, gradients)
    kernel = SMCKernel(
        plan.likelihood,
        flat.prior,
        schedule.next_window,
        KERNELS[config.kernel],
        RESAMPLERS[config.resampling],
        config.weight_target == "previous",
    )
    step_size = jnp.asarray(config.step_size, jnp.float32)
    params = SMCParams(step_size, jnp.asarray(config.n_leapfrog_steps, jnp.int32), schedule.params)
    wraparound = config.first_batch + plan.micro_batch
    data = to_device(x, y, seed=seed if shuffle else None, wraparound=wraparound)
    return Assembly(kernel, params, schedule, data, flat, plan)


class Saved(NamedTuple):
    """All that the rest of a run depends on and that its settings, seed and data do not give."""

    state: SMCState
    trace: SMCInfo
    row_seconds: Float[np.ndarray, " iteration"]
    runtime_s: Float[np.ndarray, ""]


class Run:
    """One run in progress: start it, advance it, read its state and trace at any time."""

    def __init__(
        self,
        model: Model,
        x: Shaped[np.ndarray, "example ..."],
        y: Shaped[np.ndarray, "label ..."],
        config: SamplerConfig,
        seed: int = 0,
        shuffle: bool = True,
        gradients: str = "auto",
    ) -> None:
        """Put the data on the device, compile, draw and weight the first particles."""
        self.config = config
        started = time.perf_counter()
        self.kernel, self.params, self._schedule, self.data, self.flat, self.plan = assemble(
            model, x, y, config, seed, shuffle, gradients
        )
        self.compile_s = time.perf_counter() - started
        self._first_evaluations = int(self._schedule.first.size)
        self.runtime_s = 0.0
        self._row_seconds = np.zeros(config.iterations)

        key_init, self._key = jax.random.split(jax.random.key(seed))
        first, placement = self._schedule.first, self.plan.placement
        of_state = of_trace = None
        if placement is not None:
            of_state, of_trace = state_sharding(placement), placement.replicated
            replicated = (key_init, self._key, first, self.data, self.params)
            replicated = jax.device_put(replicated, placement.replicated)
            key_init, self._key, first, self.data, self.params = replicated
        started = time.perf_counter()
        begin = partial(init, kernel=self.kernel, n_particles=config.particles)
        start = jax.jit(begin, out_shardings=of_state)
        start = start.lower(key_init, first=first, data=self.data).compile()
        self.compile_s += time.perf_counter() - started
        self.state: SMCState = self._timed(start, key_init, first=first, data=self.data)
        self._check_alive()
        started = time.perf_counter()
        self._trace = empty_trace(self.kernel, self.params, self.state, self.data, config.iterations)
        if placement is not None:
            self._trace = jax.device_put(self._trace, placement.replicated)
        block = jax.jit(
            partial(run_block, self.kernel), donate_argnums=(1, 2), out_shardings=(of_state, of_trace)
        )
        zero = jnp.asarray(0, jnp.int32)
        self._block = block.lower(self._key, self.state, self._trace, zero, self.params, self.data).compile()
        self.compile_s += time.perf_counter() - started

    @property
    def iteration(self) -> int:
        """How many iterations are done."""
        return int(self.state.iteration)

    @property
    def is_finished(self) -> bool:
        """Whether all iterations are done."""
        return self.iteration >= self.config.iterations

    def advance(self, n_iterations: int) -> None:
        """Do some more iterations, at most to the end."""
        first = self.iteration
        before = self.runtime_s
        until = min(first + n_iterations, self.config.iterations)
        if until == first:
            return
        self.state, self._trace = self._timed(
            self._block,
            self._key,
            self.state,
            self._trace,
            jnp.asarray(until, jnp.int32),
            self.params,
            self.data,
        )
        self._check_alive()
        # Within a block, time is divided by the evaluations of each iteration.
        done = np.cumsum(np.asarray(self._trace.evaluations)[first:until], dtype=float)
        self._row_seconds[first:until] = before + (self.runtime_s - before) * done / done[-1]

    def to_save(self) -> Saved:
        """Where the run stands, as arrays of the host; nothing is copied on the device."""
        state, trace = to_host((self.state, self._trace))
        return Saved(state, trace, self._row_seconds.copy(), np.asarray(self.runtime_s))

    def restore(self, saved: Saved) -> None:
        """Resume from where another process stood, as if it were this one."""
        # What was drawn here goes first, so that the device never holds two sets of particles.
        for part in jax.tree.leaves((self.state, self._trace)):
            part.delete()
        placement = self.plan.placement
        if placement is None:
            self.state, self._trace = jax.tree.map(jnp.array, (saved.state, saved.trace))
        else:
            self.state = jax.device_put(saved.state, state_sharding(placement))
            self._trace = jax.device_put(saved.trace, placement.replicated)
        self._row_seconds = saved.row_seconds.copy()
        self.runtime_s = float(saved.runtime_s)

    def trace(self) -> dict[str, np.ndarray]:
        """The rows so far, by the column names of `trace.csv`."""
        done = self.iteration
        columns = {name: np.asarray(column)[:done] for name, column in self._trace._asdict().items()}
        evaluations = columns.pop("evaluations").astype(np.int64)
        first_batch, kappa = self.config.first_batch, self.config.batch_size
        beyond_first = np.maximum(columns["batch_size"] - first_batch, 0)
        return {
            "iteration": np.arange(done),
            "batch_size": columns.pop("batch_size"),
            "n_batches": 1 + -(-beyond_first // kappa),
            **columns,
            "gradient_evaluations": self.config.particles
            * (self._first_evaluations + np.cumsum(evaluations)),
            "runtime_s": self._row_seconds[:done].copy(),
        }

    def last_row(self) -> dict[str, Any]:
        """The newest row of the trace, as plain numbers."""
        return {name: column[self.iteration - 1].item() for name, column in self._trace._asdict().items()}

    def seconds_left(self) -> float:
        """Guess the time to the end from the time per evaluation so far and the evaluations to come.

        Where a schedule decides as it goes, the amount of data is taken to stay what it is.
        """
        to_come = self._schedule.plan.size[self.iteration :]
        examples = to_come.sum() if self._schedule.is_fixed else to_come.size * int(self.state.window.size)
        gradients = self.kernel.move.gradients(self.config.n_leapfrog_steps)
        done = self._first_evaluations + np.asarray(self._trace.evaluations)[: self.iteration].sum()
        return float(self.runtime_s * gradients * examples / done)

    def log_evidence(self) -> float | None:
        """Log evidence of all the data, or None where the weights do not estimate it.

        They do when the last target is the full posterior and every change of the target on the way
        was corrected for: `weight_target` previous, or a target that never changed.
        """
        window = self.state.window
        complete = int(window.size) == int(self.data.n_data) and float(window.beta) == 1.0
        corrected = self.config.weight_target == "previous" or self.config.scheme == "full_batch"
        return float(self.state.log_evidence) if complete and corrected else None

    def _timed(self, compiled: Any, *arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments, **named))
        self.runtime_s += time.perf_counter() - started
        return result

    def _check_alive(self) -> None:
        if not bool(jnp.any(self.state.log_weights > -jnp.inf)):
            h = self.config.step_size
            raise Diverged(
                f"no particle has a finite log-density any more at iteration {max(self.iteration - 1, 0)} "
                f"with step_size h = {h:g}: lower it (try {h / 2:g})"
            )


def empty_trace(
    kernel: SMCKernel, params: SMCParams, state: SMCState, data: ShuffledData, n_iterations: int
) -> SMCInfo:
    """A trace of zeros with the shapes and types that `step` reports."""
    row = jax.eval_shape(lambda state: step(jax.random.key(0), state, kernel, params, data)[1], state)
    return jax.tree.map(lambda value: jnp.zeros((n_iterations, *value.shape), value.dtype), row)
