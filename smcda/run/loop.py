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

from smcda.errors import BadInput, Diverged
from smcda.models.priors import Prior
from smcda.parallel.plan import choose_layout
from smcda.parallel.sharding import put, to_host
from smcda.settings import Settings
from smcda.smc.batches import Batches, stored
from smcda.smc.kernels import KERNELS
from smcda.smc.resampling import RESAMPLERS
from smcda.smc.sampler import Algorithm, Knobs, SMCInfo, SMCState, init, placed, step
from smcda.smc.schedules import SCHEMES, Scheme
from smcda.smc.schedules.fixed import FIXED_SCHEMES
from smcda.smc.target import LogLikelihood, WindowSums, make_target


def run_block(
    algorithm: Algorithm,
    key: PRNGKeyArray,
    state: SMCState,
    trace: SMCInfo,
    until: Int[Array, ""],
    knobs: Knobs,
    batches: Batches,
) -> tuple[SMCState, SMCInfo]:
    """Iterate up to iteration `until`, or until no particle has any weight left."""

    def unfinished(carry: tuple[SMCState, SMCInfo]) -> Array:
        state, _ = carry
        return (state.iteration < until) & jnp.any(state.log_weights > -jnp.inf)

    def iterate(carry: tuple[SMCState, SMCInfo]) -> tuple[SMCState, SMCInfo]:
        state, trace = carry
        row = state.iteration
        state, info = step(key, state, algorithm, knobs, batches)
        return state, jax.tree.map(lambda column, value: column.at[row].set(value), trace, info)

    return jax.lax.while_loop(unfinished, iterate, (state, trace))


class Assembly(NamedTuple):
    """Everything a run is made of, before its first particle is drawn."""

    algorithm: Algorithm
    scheme: Scheme
    knobs: Knobs
    batches: Batches


def assemble(
    log_likelihood: LogLikelihood,
    prior: Prior,
    x: Shaped[np.ndarray, "example ..."],
    y: Shaped[np.ndarray, "label ..."],
    settings: Settings,
    seed: int,
    shuffle: bool,
    window_sums: WindowSums | None = None,
) -> Assembly:
    """Look up what the settings name and put the data on the device."""
    if len(x) != len(y) or len(x) == 0:
        raise BadInput(f"x has {len(x)} examples and y {len(y)}: give as many of each, and at least one")
    scheme = SCHEMES[settings.scheme](settings.annealing(len(x)))
    target = make_target(log_likelihood, prior, window_sums)
    layout = choose_layout(settings, target.n_parameters)
    algorithm = Algorithm(
        target,
        scheme.advance,
        KERNELS[settings.kernel],
        RESAMPLERS[settings.resampling],
        settings.weight_target == "previous",
        layout,
    )
    step_size = jnp.asarray(settings.step_size, jnp.float32)
    knobs = Knobs(step_size, jnp.asarray(settings.sweeps, jnp.int32), scheme.table)
    overhang = settings.first_batch + layout.micro_batch
    return Assembly(algorithm, scheme, knobs, stored(x, y, seed=seed if shuffle else None, overhang=overhang))


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
        log_likelihood: LogLikelihood,
        prior: Prior,
        x: Shaped[np.ndarray, "example ..."],
        y: Shaped[np.ndarray, "label ..."],
        settings: Settings,
        seed: int = 0,
        shuffle: bool = True,
        window_sums: WindowSums | None = None,
    ) -> None:
        """Put the data on the device, compile, draw and weigh the first particles."""
        self.settings = settings
        self.algorithm, scheme, knobs, self.batches = assemble(
            log_likelihood, prior, x, y, settings, seed, shuffle, window_sums
        )
        self._knobs = knobs
        self._first_images = int(scheme.first.size)
        self.runtime_s = 0.0
        self._row_seconds = np.zeros(settings.iterations)

        key_init, self._key = jax.random.split(jax.random.key(seed))
        first, self._trace = scheme.first, _empty_trace(settings.iterations)
        placement = self.algorithm.layout.placement
        of_state = of_trace = None
        if placement is not None:
            of_state, of_trace = placed(placement), placement.everywhere
            shared = (key_init, self._key, first, self.batches, self._knobs, self._trace)
            shared = put(shared, placement.everywhere)
            key_init, self._key, first, self.batches, self._knobs, self._trace = shared
        started = time.perf_counter()
        begin = partial(init, algorithm=self.algorithm, n_particles=settings.particles)
        start = jax.jit(begin, out_shardings=of_state)
        start = start.lower(key_init, first=first, batches=self.batches).compile()
        self.compile_s = time.perf_counter() - started
        self.state: SMCState = self._clocked(start, key_init, first=first, batches=self.batches)
        self._check_alive()
        started = time.perf_counter()
        self._block = (
            jax.jit(
                partial(run_block, self.algorithm), donate_argnums=(1, 2), out_shardings=(of_state, of_trace)
            )
            .lower(self._key, self.state, self._trace, jnp.asarray(0, jnp.int32), self._knobs, self.batches)
            .compile()
        )
        self.compile_s += time.perf_counter() - started

    @property
    def iteration(self) -> int:
        """How many iterations are done."""
        return int(self.state.iteration)

    @property
    def is_finished(self) -> bool:
        """Whether all iterations are done."""
        return self.iteration >= self.settings.iterations

    def advance(self, n_iterations: int) -> None:
        """Do some more iterations, at most to the end."""
        first = self.iteration
        before = self.runtime_s
        until = min(first + n_iterations, self.settings.iterations)
        if until == first:
            return
        self.state, self._trace = self._clocked(
            self._block,
            self._key,
            self.state,
            self._trace,
            jnp.asarray(until, jnp.int32),
            self._knobs,
            self.batches,
        )
        self._check_alive()
        # Within a block the clock is shared out by the images each iteration looked at.
        images = np.cumsum(np.asarray(self._trace.images)[first:until], dtype=float)
        self._row_seconds[first:until] = before + (self.runtime_s - before) * images / images[-1]

    def saved(self) -> Saved:
        """Where the run stands, as arrays of the host; nothing is copied on the device."""
        state, trace = to_host((self.state, self._trace))
        return Saved(state, trace, self._row_seconds, np.asarray(self.runtime_s))

    def restore(self, saved: Saved) -> None:
        """Go on from where another process stood, as if it were this one."""
        # What was drawn here goes first, so that the device never holds two sets of particles.
        for part in jax.tree.leaves((self.state, self._trace)):
            part.delete()
        placement = self.algorithm.layout.placement
        if placement is None:
            self.state, self._trace = jax.tree.map(jnp.array, (saved.state, saved.trace))
        else:
            self.state = put(saved.state, placed(placement))
            self._trace = put(saved.trace, placement.everywhere)
        self._row_seconds = saved.row_seconds.copy()
        self.runtime_s = float(saved.runtime_s)

    def trace(self) -> dict[str, np.ndarray]:
        """The rows so far, one column a name of the trace's contract."""
        done = self.iteration
        columns = {name: np.asarray(column)[:done] for name, column in self._trace._asdict().items()}
        images = columns.pop("images").astype(np.int64)
        first_batch, kappa = self.settings.first_batch, self.settings.batch_size
        beyond_first = np.maximum(columns["batch_size"] - first_batch, 0)
        return {
            "iteration": np.arange(done),
            "batch_size": columns.pop("batch_size"),
            "n_batches": 1 + -(-beyond_first // kappa),
            **columns,
            "gradient_evaluations": self.settings.particles * (self._first_images + np.cumsum(images)),
            "runtime_s": self._row_seconds[:done].copy(),
        }

    def last_row(self) -> dict[str, Any]:
        """The newest row of the trace, as plain numbers."""
        return {name: column[self.iteration - 1].item() for name, column in self._trace._asdict().items()}

    def seconds_left(self) -> float:
        """Guess the time to the end from the time an image took so far and the images to come.

        How much data SDA will use is not known in advance; it is taken to stay as it is.
        """
        to_come = np.arange(self.iteration, self.settings.iterations)
        planned = FIXED_SCHEMES.get(self.settings.scheme)
        if planned is None:
            images = to_come.size * int(self.state.window.size)
        else:
            images = planned(self.settings.annealing(int(self.batches.n_data))).size[to_come].sum()
        looked_at = self._first_images + np.asarray(self._trace.images)[: self.iteration].sum()
        return float(self.runtime_s * self.settings.sweeps * images / looked_at)

    def log_evidence(self) -> float | None:
        """Log evidence of all the data, or None where the weights do not estimate it.

        They do when the last target is the full posterior and every change of the target on the way
        was weighed for: `weight_target` previous, or a target that never changed.
        """
        window = self.state.window
        complete = int(window.size) == int(self.batches.n_data) and float(window.beta) == 1.0
        weighed = self.settings.weight_target == "previous" or self.settings.scheme == "full_batch"
        return float(self.state.log_evidence) if complete and weighed else None

    def _clocked(self, compiled: Any, *arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments, **named))
        self.runtime_s += time.perf_counter() - started
        return result

    def _check_alive(self) -> None:
        if not bool(jnp.any(self.state.log_weights > -jnp.inf)):
            h = self.settings.step_size
            raise Diverged(
                f"no particle has a finite log-density any more at iteration {max(self.iteration - 1, 0)} "
                f"with step_size h = {h:g}: lower it (try {h / 2:g})"
            )


def _empty_trace(n_iterations: int) -> SMCInfo:
    kinds = (jnp.int32, jnp.float32, jnp.float32, jnp.bool_, jnp.int32, jnp.float32, jnp.int32)
    return SMCInfo(*(jnp.zeros(n_iterations, kind) for kind in kinds))
