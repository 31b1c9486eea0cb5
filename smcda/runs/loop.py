"""A run as a sequence of compiled blocks of iterations.

The loop over iterations runs on the device; the host only says how many to do before it wants to
look. That number is traced, like everything else that varies, so a run compiles two programs (the
start and the block) whatever its scheme, and looking more or less often never changes the result.
"""

import math
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from smcda.config import SamplerConfig, check_run_options
from smcda.errors import Diverged
from smcda.models.base import Model
from smcda.models.flat import flattened
from smcda.models.starts import Start, flat_start
from smcda.parallel.plan import make_plan
from smcda.parallel.sharding import state_sharding
from smcda.runs.checks import check_data, check_distributions, check_first_draws, check_model
from smcda.runs.compiled import compile_once
from smcda.runs.diagnostics import Diagnostic, Particles, diagnose, evidence_error
from smcda.runs.programs import begin, empty_trace, make_kernel, make_params, sampler_of
from smcda.smc import adjusted
from smcda.smc import sampler as unadjusted
from smcda.smc.batches import ShuffledData, Window, count, to_device
from smcda.smc.sampler import SMCInfo, SMCKernel, SMCParams, SMCState
from smcda.smc.schedules import make_schedule


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
        unfinished = (state.iteration < until) & jnp.any(state.log_weights > -jnp.inf)
        return unfinished if state.adaptation is None else unfinished & ~state.adaptation.is_done

    def iterate(carry: tuple[SMCState, SMCInfo]) -> tuple[SMCState, SMCInfo]:
        state, trace = carry
        row = state.iteration
        sampler = unadjusted if state.adaptation is None else adjusted
        state, info = sampler.step(key, state, kernel, params, data)
        return state, jax.tree.map(lambda c, value: c.at[row].set(value.astype(c.dtype)), trace, info)

    return jax.lax.while_loop(unfinished, iterate, (state, trace))


class Diagnosis(NamedTuple):
    """What a run's result is worth: the evidence where it can be trusted, and reasons for doubt."""

    log_evidence: float | None
    log_evidence_error: float | None
    doubts: list[Diagnostic]


class Previous(NamedTuple):
    """A finished posterior of the first `n_data` examples, which a run continues from."""

    particles: Float[Array, "particle parameter"]
    log_weights: Float[Array, " particle"]
    n_data: int
    log_evidence: float | None
    log_evidence_error: float | None


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
        x: Any,
        y: Any,
        config: SamplerConfig,
        seed: int = 0,
        shuffle: bool = True,
        gradients: str = "auto",
        start: Start | None = None,
        start_seed: int | None = None,
        previous: Previous | None = None,
    ) -> None:
        """Look up what the config names, put the data on the device, compile, draw the first particles."""
        check_run_options(seed=seed)
        x, y = check_data(x, y)
        started = time.perf_counter()
        n_data = count(x)
        self.config = config = config.for_data(n_data)
        self.schedule = make_schedule(config, n_data)
        n_old = 0
        if previous is not None:
            n_old = previous.n_data
            seen = Window(jnp.int32(0), jnp.int32(0), jnp.int32(n_old), jnp.float32(1))
            self.schedule = self.schedule._replace(first=seen)
        self.sampler = sampler_of(config)
        check_distributions(model, start)
        self.flat = flattened(model.joint_prior)
        self.model, self.start, self.previous = model, start, previous
        self.plan = make_plan(model, self.flat, config, x, y, gradients)
        check_model(model, self.flat, x, y, self.plan.micro_batch)
        first_draws = None if start is None else flat_start(start, model.joint_prior, self.flat)
        self.kernel = make_kernel(config, self.plan, self.flat, self.schedule, first_draws)
        params = make_params(config, self.schedule)
        wraparound = config.batches[1] + self.plan.micro_batch
        data = to_device(x, y, seed=seed if shuffle else None, wraparound=wraparound, n_old=n_old)
        keys = jax.random.split(jax.random.key(seed))
        if start_seed is not None:
            keys = (jax.random.split(jax.random.key(start_seed))[0], keys[1])
        self._sharded, self._replicated = state_sharding(self.plan.mesh)
        placed = jax.device_put((*keys, self.schedule.first, data, params), self._replicated)
        key_init, self._key, first, self.data, self.params = placed
        self.compile_s = time.perf_counter() - started
        self.programs: list[str] = []
        """Digests of the compiled programs, which together say what this run computes."""

        draws_sharded = None if self._sharded is None else self._sharded.particles
        shardings = (self._sharded, draws_sharded, self._replicated)
        given = () if previous is None else (previous.particles, previous.log_weights)
        arguments = (key_init, first, self.data, *jax.device_put(given, self._replicated))
        begin_run = self._compile(partial(begin, self.kernel, config), *arguments, out_shardings=shardings)
        self.runtime_s = 0.0
        self._row_seconds = np.zeros(config.iterations)
        self.state: SMCState
        self.state, draws, has_gradient = self._timed(begin_run, *arguments)
        self._first_draws = np.asarray(draws)
        """The first particles, before any of them was weighted, on the host."""
        check_first_draws(self._first_draws, bool(has_gradient), *map(np.asarray, self.state.likelihood))
        self._trace = jax.device_put(empty_trace(config), self._replicated)
        self._block = self._compile(
            partial(run_block, self.kernel),
            *(self._key, self.state, self._trace, jnp.asarray(0, jnp.int32), self.params, self.data),
            donate_argnums=(1, 2),
            out_shardings=(self._sharded, self._replicated),
        )

    @property
    def iteration(self) -> int:
        """How many iterations are done."""
        return int(self.state.iteration)

    @property
    def is_finished(self) -> bool:
        """Whether all iterations are done, or the particles have settled at the last target."""
        adaptation = self.state.adaptation
        settled = adaptation is not None and bool(adaptation.is_done)
        return settled or self.iteration >= self.config.iterations

    def advance(self, n_iterations: int) -> None:
        """Do some more iterations, at most to the end."""
        if self.is_finished or n_iterations < 1:
            return
        first = self.iteration
        before = self.runtime_s
        end = jnp.asarray(min(first + n_iterations, self.config.iterations), jnp.int32)
        self.state, self._trace = self._timed(
            self._block, self._key, self.state, self._trace, end, self.params, self.data
        )
        self._check_alive()
        until = self.iteration
        # Within a block, time is divided by the evaluations of each iteration.
        done = np.cumsum(np.asarray(self._trace.evaluations)[first:until], dtype=float)
        self._row_seconds[first:until] = before + (self.runtime_s - before) * done / done[-1]

    def to_save(self) -> Saved:
        """Where the run stands, as arrays of the host; nothing is copied on the device."""
        # Not jax.device_get, which makes arrays on the device.
        state, trace = jax.tree.map(np.asarray, (self.state, self._trace))
        return Saved(state, trace, self._row_seconds.copy(), np.asarray(self.runtime_s))

    def restore(self, saved: Saved) -> None:
        """Resume from where another process stood, as if it were this one."""
        # What was drawn here goes first, so that the device never holds two sets of particles.
        for part in jax.tree.leaves((self.state, self._trace)):
            part.delete()
        self.state, self._trace = jax.device_put(
            (saved.state, saved.trace), (self._sharded, self._replicated), may_alias=False
        )
        self._row_seconds = saved.row_seconds.copy()
        self.runtime_s = float(saved.runtime_s)

    def trace(self) -> dict[str, np.ndarray]:
        """The rows so far, by the column names of `trace.csv`."""
        done = self.iteration
        columns = {name: np.asarray(column)[:done] for name, column in self._columns().items()}
        evaluations = columns.pop("evaluations").astype(np.int64)
        kappa, first_batch = self.config.batches
        beyond_first = np.maximum(columns["batch_size"] - first_batch, 0)
        return {
            "iteration": np.arange(done),
            "batch_size": columns.pop("batch_size"),
            "n_batches": 1 + -(-beyond_first // kappa),
            **columns,
            "gradient_evaluations": self.config.particles
            * (int(self.schedule.first.size) + np.cumsum(evaluations)),
            "runtime_s": self._row_seconds[:done].copy(),
        }

    def last_row(self) -> dict[str, Any]:
        """The newest row of the trace as numbers."""
        return {name: column[self.iteration - 1].item() for name, column in self._columns().items()}

    def _columns(self) -> dict[str, Array]:
        columns = self._trace._asdict()
        moves = columns.pop("moves")
        return columns | ({} if moves is None else moves._asdict())

    def seconds_left(self) -> float | None:
        """Guess the time to the end from the time per evaluation so far and the evaluations to come.

        Where a schedule decides as it goes, the amount of data is taken to stay what it is; None where it
        also decides on the number of iterations.
        """
        if self.schedule.next_beta is not None:
            return None
        to_come = self.schedule.plan.size[self.iteration :]
        examples = to_come.sum() if self.schedule.is_fixed else to_come.size * int(self.state.window.size)
        gradients = self.kernel.move.gradients(self.config.leapfrog_steps)
        done = int(self.schedule.first.size) + np.asarray(self._trace.evaluations)[: self.iteration].sum()
        return float(self.runtime_s * gradients * examples / done)

    def diagnose(self) -> Diagnosis:
        """The log evidence where there is one, its error, and every doubt about the result so far.

        The weights estimate the evidence when the last target is the full posterior and every change of the
        target on the way was corrected for: adjusted moves, `weight_target` previous, or a target that never
        changed.
        """
        config, trace, state = self.config, self.trace(), self.state
        way = np.asarray(state.particles) - self._first_draws[np.asarray(state.root_ancestor)]
        width = np.std(self._first_draws, axis=0)
        particles = Particles(
            np.exp(np.asarray(state.log_weights, np.float64)),
            np.asarray(state.root_ancestor),
            float(np.sqrt(np.mean((way[:, width > 0] / width[width > 0]) ** 2))),
        )
        corrected = config.adjusted or config.weight_target == "previous" or config.scheme == "full_batch"
        if self.start is not None:
            corrected &= self.start.log_density is not None and self.start.is_continuous
        error = evidence_error(trace, particles) if corrected else None
        log_evidence = float(state.log_evidence)
        if self.previous is not None and error is not None:
            before, its_error = self.previous.log_evidence, self.previous.log_evidence_error
            if before is None or its_error is None:
                error = None
            else:
                log_evidence, error = log_evidence + before, math.hypot(error, its_error)
        doubts = diagnose(config, int(self.data.n_data), trace, particles, error)
        if error is None or any(doubt.spoils_evidence for doubt in doubts):
            return Diagnosis(None, None, doubts)
        return Diagnosis(log_evidence, error, doubts)

    def _compile(self, function: Any, *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        with jax.default_matmul_precision(self.plan.precision):
            lowered = jax.jit(function, **options).lower(*arguments)
        compiled, digest = compile_once(lowered)
        self.programs.append(digest)
        self.compile_s += time.perf_counter() - started
        return compiled

    def _timed(self, compiled: Any, *arguments: Any) -> Any:
        started = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments))
        self.runtime_s += time.perf_counter() - started
        return result

    def _check_alive(self) -> None:
        if not np.any(np.asarray(self.state.log_weights) > -np.inf):
            if (h := self.config.step_size) is None:
                raise Diverged(
                    f"no particle has a finite log-density any more at iteration {self.iteration}: "
                    "check that the log-likelihood and its gradient stay finite where the prior draws"
                )
            raise Diverged(
                f"no particle has a finite log-density any more at iteration {max(self.iteration - 1, 0)} "
                f"with step_size h = {h:g}: lower it (try {h / 2:g})"
            )
