"""A run as a sequence of compiled blocks of iterations.

The loop over iterations runs on the device; the host only says how many to do before it wants to
look. That number is traced, like everything else that varies, so a run compiles two programs (the
start and the block) whatever its scheme, and looking more or less often never changes the result.
"""

import dataclasses
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from smcda._options import options
from smcda.config import RunConfig, SamplerConfig
from smcda.errors import BadInput, Diverged
from smcda.models.base import Model
from smcda.models.priors import Flattened, Parameters, Prior, flattened
from smcda.parallel.plan import make_plan
from smcda.parallel.sharding import state_sharding
from smcda.smc.batches import ShuffledData, Window, to_device
from smcda.smc.kernels import KERNELS
from smcda.smc.likelihood import LogLikelihood
from smcda.smc.resampling import RESAMPLERS
from smcda.smc.sampler import SMCInfo, SMCKernel, SMCParams, SMCState, init, step
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
        return (state.iteration < until) & jnp.any(state.log_weights > -jnp.inf)

    def iterate(carry: tuple[SMCState, SMCInfo]) -> tuple[SMCState, SMCInfo]:
        state, trace = carry
        row = state.iteration
        state, info = step(key, state, kernel, params, data)
        return state, jax.tree.map(lambda column, value: column.at[row].set(value), trace, info)

    return jax.lax.while_loop(unfinished, iterate, (state, trace))


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
        """Look up what the config names, put the data on the device, compile, draw the first particles."""
        seed = next(option for option in options(RunConfig) if option.name == "seed").check(seed)
        check_data(x, y)
        started = time.perf_counter()
        self.config = config
        self.schedule = make_schedule(config, len(x))
        self.flat = flattened(model.prior)
        self.plan = make_plan(model, self.flat, config, gradients)
        check_shape(model, self.flat, x[: self.plan.micro_batch], y[: self.plan.micro_batch])
        self.kernel = SMCKernel(
            self.plan.likelihood,
            self.flat.prior,
            self.schedule.next_window,
            KERNELS[config.kernel],
            RESAMPLERS[config.resampling],
            config.weight_target == "previous",
        )
        step_size = jnp.asarray(config.step_size, jnp.float32)
        n_steps = jnp.asarray(config.n_leapfrog_steps, jnp.int32)
        params = SMCParams(step_size, n_steps, self.schedule.params)
        wraparound = config.first_batch + self.plan.micro_batch
        data = to_device(x, y, seed=seed if shuffle else None, wraparound=wraparound)
        keys = jax.random.split(jax.random.key(seed))
        self._sharded, self._replicated = state_sharding(self.plan.mesh)
        placed = jax.device_put((*keys, self.schedule.first, data, params), self._replicated)
        key_init, self._key, first, self.data, self.params = placed
        self.compile_s = time.perf_counter() - started

        def begin(key: PRNGKeyArray, first: Window, data: ShuffledData) -> SMCState:
            return init(key, self.kernel, first, data, config.particles)

        start = self._compile(begin, key_init, first, self.data, out_shardings=self._sharded)
        self.runtime_s = 0.0
        self._row_seconds = np.zeros(config.iterations)
        self.state: SMCState = self._timed(start, key_init, first, self.data)
        self._check_alive()
        # A trace of zeros with the shapes and types that `step` reports.
        one_step = partial(step, kernel=self.kernel, params=self.params, data=self.data)
        _, row = jax.eval_shape(one_step, self._key, self.state)
        empty = jax.tree.map(lambda value: jnp.zeros((config.iterations, *value.shape), value.dtype), row)
        self._trace = jax.device_put(empty, self._replicated)
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
        """Whether all iterations are done."""
        return self.iteration >= self.config.iterations

    def advance(self, n_iterations: int) -> None:
        """Do some more iterations, at most to the end."""
        first = self.iteration
        before = self.runtime_s
        until = min(first + n_iterations, self.config.iterations)
        if until == first:
            return
        end = jnp.asarray(until, jnp.int32)
        self.state, self._trace = self._timed(
            self._block, self._key, self.state, self._trace, end, self.params, self.data
        )
        self._check_alive()
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
            * (int(self.schedule.first.size) + np.cumsum(evaluations)),
            "runtime_s": self._row_seconds[:done].copy(),
        }

    def last_row(self) -> dict[str, Any]:
        """The newest row of the trace, as plain numbers."""
        return {name: column[self.iteration - 1].item() for name, column in self._trace._asdict().items()}

    def seconds_left(self) -> float:
        """Guess the time to the end from the time per evaluation so far and the evaluations to come.

        Where a schedule decides as it goes, the amount of data is taken to stay what it is.
        """
        to_come = self.schedule.plan.size[self.iteration :]
        examples = to_come.sum() if self.schedule.is_fixed else to_come.size * int(self.state.window.size)
        gradients = self.kernel.move.gradients(self.config.n_leapfrog_steps)
        done = int(self.schedule.first.size) + np.asarray(self._trace.evaluations)[: self.iteration].sum()
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

    def _compile(self, function: Any, *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        compiled = jax.jit(function, **options).lower(*arguments).compile()
        self.compile_s += time.perf_counter() - started
        return compiled

    def _timed(self, compiled: Any, *arguments: Any) -> Any:
        started = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments))
        self.runtime_s += time.perf_counter() - started
        return result

    def _check_alive(self) -> None:
        if not bool(jnp.any(self.state.log_weights > -jnp.inf)):
            if self.iteration == 0:
                raise Diverged(
                    "no particle drawn from the prior has a finite log-likelihood: check the data, "
                    "the log-likelihood and the prior's scale"
                )
            h = self.config.step_size
            raise Diverged(
                f"no particle has a finite log-density any more at iteration {max(self.iteration - 1, 0)} "
                f"with step_size h = {h:g}: lower it (try {h / 2:g})"
            )


def check_data(x: np.ndarray, y: np.ndarray) -> None:
    """Refuse data of two lengths, none, or with values that are not finite."""
    if len(x) != len(y) or len(x) == 0:
        raise BadInput(f"x has {len(x)} examples and y {len(y)}: give as many of each, and at least one")
    for name, array in (("x", x), ("y", y)):
        if not np.issubdtype(array.dtype, np.number) and array.dtype != bool:
            raise BadInput(f"{name} is of type {array.dtype}, but must be numbers: encode it")
        bad = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if bad.size:
            rows = "rows have" if bad.size > 1 else "row has"
            raise BadInput(
                f"{bad.size} {rows} a value in {name} that is not finite, first row {bad[0]}: remove it"
            )


def check_shape(model: Model, flat: Flattened, x: np.ndarray, y: np.ndarray) -> None:
    """Refuse a log-likelihood that is not one number per example; nothing is computed."""
    shapes = [jax.ShapeDtypeStruct(a.shape, jax.dtypes.canonicalize_dtype(a.dtype)) for a in (x, y)]
    particle = jax.ShapeDtypeStruct((flat.n_parameters,), jnp.float32)
    found = jax.eval_shape(lambda p, x, y: model.log_likelihood(flat.unravel(p), x, y), particle, *shapes)
    shape = getattr(found, "shape", None)
    if shape != (len(x),):
        raise BadInput(
            f"log_likelihood gives shape {shape} for {len(x)} examples, but must give {(len(x),)}: "
            "one number per example, neither summed nor in a column"
        )


class Posterior(NamedTuple):
    """Weighted samples: parameters with a leading particle axis, weights that sum to one."""

    parameters: Parameters
    weights: Float[np.ndarray, " particle"]
    log_evidence: float | None
    trace: dict[str, np.ndarray]


def sample(
    log_likelihood: LogLikelihood,
    prior: Prior,
    x: Any,
    y: Any,
    *,
    seed: int = 0,
    shuffle: bool = True,
    **settings: Any,
) -> Posterior:
    """Sample the posterior of any model: the package's one-call interface.

    `log_likelihood(parameters, x, y)` gives the log-likelihood of each example of a slice; parameters
    are whatever pytree `prior` draws. Settings are the options of `SamplerConfig`, by name. With `shuffle`
    false the data are used in the order given.
    """
    known = [field.name for field in dataclasses.fields(SamplerConfig)]
    for name in settings:
        if name not in known:
            raise BadInput(f"setting {name!r} is unknown: choose from {', '.join(known)}")
    config = SamplerConfig(**settings)
    run = Run(Model(log_likelihood, prior), np.asarray(x), np.asarray(y), config, seed, shuffle)
    run.advance(config.iterations)
    parameters = jax.vmap(run.flat.unravel)(run.state.particles)
    return Posterior(parameters, np.exp(np.asarray(run.state.log_weights)), run.log_evidence(), run.trace())
