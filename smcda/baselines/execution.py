"""A baseline in this process: the search, the run that it chose, and the result with its files."""

import logging
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda.baselines import cyclical, ensemble
from smcda.baselines.config import EnsembleConfig, SGHMCConfig, batch_size_for, described
from smcda.baselines.epochs import Epochs, check_finite, first_particles, split
from smcda.baselines.search import Candidate, choose, doubts
from smcda.errors import BadInput
from smcda.runs import outputs
from smcda.runs.evaluation import Evaluator, foreign_scores
from smcda.runs.fingerprint import numeric_sources, provenance, surroundings
from smcda.runs.progress import Report
from smcda.runs.result import Result
from smcda.smc.batches import count
from smcda.smc.likelihood import Particles

if TYPE_CHECKING:
    from smcda.baselines.run import Task

logger = logging.getLogger("smcda")

Rows = dict[str, list[float]]


class Execution:
    """A task in this process."""

    def __init__(self, task: "Task", report: Report) -> None:
        """Nothing is computed yet."""
        self._task, self._report = task, report
        self._batch_size = batch_size_for(task.config, count(task.x))
        self._keys = jax.random.split(jax.random.key(task.seed), 4)
        self._provenance = {} if task.out is None else provenance()
        self._evaluators: list[Evaluator] = []
        self._compiled: list[Epochs] = []
        self._candidates: list[Candidate] = []
        self._evaluation_s = self._search_s = 0.0
        self._search = {"search_gradient_evaluations": 0, "search_likelihood_evaluations": 0}

    def finish(self, started: float) -> Result:
        """Search, run, score and write."""
        task = self._task
        candidates = getattr(task.config, task.config.candidates_of)
        if task.config.validation == 0:
            chosen = Candidate(candidates[0], float("nan"), getattr(task.config, "epochs", 0))
        else:
            began = time.perf_counter()
            self._choose()
            chosen, self._search_s = choose(task.config, self._candidates), time.perf_counter() - began
        result = self._result(chosen, *self._run(chosen), time.perf_counter() - started)
        if task.out is not None:
            known = {
                "peak_memory_mb": outputs.peak_memory_mb(),
                "versions": outputs.versions() | {"optax": version("optax")},
                **self._provenance,
                "fingerprint": self._fingerprint(),
            }
            posterior = result if task.save_posterior else None
            outputs.write_results(task.out, result.metrics | known, result.trace, posterior)
        for doubt in result.diagnostics:
            logger.warning(doubt.message)
        return result

    def _choose(self) -> None:
        """Try every candidate on part of the training data."""
        task, config = self._task, self._task.config
        if count(task.x) < 2:
            raise BadInput("validation needs at least 2 training examples: give more, or validation 0")
        learn, validation = split(task.x, task.y, config.validation, task.seed)
        is_ensemble = isinstance(config, EnsembleConfig)
        n = config.search_particles if is_ensemble else config.chains
        epochs = self._epochs(learn, n)
        particles = self._first(n, self._keys[0])
        evaluator = Evaluator(task.model, epochs.plan, epochs.flat.unravel, validation, particles, _equal(n))
        self._evaluators.append(evaluator)

        def score(found: Particles) -> float:
            if not np.isfinite(np.asarray(found)).all():
                return -np.inf
            self._search["search_likelihood_evaluations"] += n * count(validation[0])
            return evaluator(found, _equal(n))["test_log_likelihood"]

        search = ensemble.search if is_ensemble else cyclical.search
        for candidate in search(epochs, config, particles, self._keys[1], score):  # pyright: ignore[reportArgumentType]
            self._candidates.append(candidate)
            reached = candidate.validation_log_likelihood
            status = f"{config.candidates_of} {candidate.value:g}  validation {reached:.4f}"
            self._report(len(self._candidates), status, False)
        self._search["search_gradient_evaluations"] = epochs.evaluations

    def _run(self, chosen: Candidate) -> tuple[Particles, Rows, dict[str, Any], Epochs]:
        """The run itself: particles, trace, test scores."""
        config = self._task.config
        if isinstance(config, EnsembleConfig):
            return self._train(config, chosen)
        return self._sample(config, chosen)

    def _train(
        self, config: EnsembleConfig, chosen: Candidate
    ) -> tuple[Particles, Rows, dict[str, Any], Epochs]:
        epochs = self._epochs((self._task.x, self._task.y), config.particles)
        particles = self._first(config.particles, self._keys[2])
        evaluate, rows = self._evaluator(epochs, particles), Trace(epochs)
        training = ensemble.train(epochs, config, particles, chosen.value, self._keys[3])
        scores: dict[str, Any] = {}
        for epoch, particles, value in training:
            is_last = epoch == chosen.epochs
            if is_last:
                check_finite(particles, config.learning_rate)
            scores = evaluate(particles) if is_last or epoch % config.evaluate_every == 0 else {}
            rows.add(epoch, value, scores)
            self._report(epoch, _status(value, scores), is_last)
            if is_last:
                break
        return particles, rows.columns(), scores, epochs

    def _sample(
        self, config: SGHMCConfig, chosen: Candidate
    ) -> tuple[Particles, Rows, dict[str, Any], Epochs]:
        epochs = self._epochs((self._task.x, self._task.y), config.chains)
        first = self._first(config.chains, self._keys[2])
        n_cycles = config.particles // config.chains
        kept = jnp.tile(first, (n_cycles, 1))
        evaluate, rows = self._evaluator(epochs, kept), Trace(epochs)
        sampling = cyclical.sample(epochs, config, first, chosen.value, self._keys[3], n_cycles)
        scores: dict[str, Any] = {}
        for epoch, chains, value, is_end in sampling:
            scores = {}
            if is_end:
                check_finite(chains, chosen.value)
                n_kept = epoch // config.cycle_epochs * config.chains
                kept = kept.at[n_kept - config.chains : n_kept].set(chains)
                scores = evaluate(kept, n_kept)
            rows.add(epoch, value, scores)
            self._report(epoch, _status(value, scores), epoch == n_cycles * config.cycle_epochs)
        return kept, rows.columns(), scores, epochs

    def _first(self, n: int, key: Any) -> Particles:
        return first_particles(self._task.model, n, key, getattr(self._task.config, "start", None))

    def _epochs(self, data: tuple[Any, Any], n: int) -> Epochs:
        task, config = self._task, self._task.config
        epochs = Epochs(task.model, data, n, self._batch_size, task.gradients)
        if isinstance(config, EnsembleConfig):
            epochs.step = ensemble.make_step(config.learning_rate)
        else:
            cycle = config.cycle_epochs * epochs.n_batches
            epochs.step = cyclical.make_step(epochs.flat.prior, config.momentum, epochs.n_data, cycle)
        self._compiled.append(epochs)
        return epochs

    def _evaluator(self, epochs: Epochs, particles: Particles) -> Any:
        """``(particles, how many of them count) -> test scores``; none without test data."""
        task, n = self._task, len(particles)
        if task.test is None:
            return lambda particles, n_kept=n: {}
        evaluator = Evaluator(task.model, epochs.plan, epochs.flat.unravel, task.test, particles, _equal(n))
        self._evaluators.append(evaluator)

        def evaluate(particles: Particles, n_kept: int = n) -> dict[str, Any]:
            started = time.perf_counter()
            scores = evaluator(particles, _equal(n, n_kept))
            self._evaluation_s += time.perf_counter() - started
            return scores

        return evaluate

    def _result(
        self,
        chosen: Candidate,
        particles: Particles,
        rows: Rows,
        scores: dict[str, Any],
        epochs: Epochs,
        wall_s: float,
    ) -> Result:
        task, config, n = self._task, self._task.config, len(particles)
        if task.ood is not None:
            assert task.test is not None and epochs.plan.outputs is not None
            started = time.perf_counter()
            scores = scores | foreign_scores(
                task.model, epochs.plan.outputs, task.test[0], task.ood, particles, _equal(n)
            )
            self._evaluation_s += time.perf_counter() - started
        compiled = (*self._compiled, *self._evaluators)
        found = doubts(config, chosen, self._candidates)
        metrics = {
            **task.about,
            "scheme": config.name,
            "kernel": config.kernel,
            "particles": n,
            "iterations": len(rows["iteration"]),
            "seed": task.seed,
            "n_parameters": epochs.flat.n_parameters,
            **scores,
            "runtime_s": epochs.seconds,
            "compile_s": sum(each.compile_s for each in compiled),
            "evaluation_s": self._evaluation_s,
            "search_s": self._search_s,
            "wall_s": wall_s,
            "gradient_evaluations": epochs.evaluations,
            **self._search,
            config.candidates_of: chosen.value,
            "search": [each._asdict() for each in map(_finite, self._candidates)],
            "log_evidence": None,
            "log_evidence_error": None,
            "diagnostics": {doubt.name: doubt.message for doubt in found},
            "device": jax.devices()[0].device_kind,
            "devices": 1,
            "gradients": "xla" if epochs.plan.gradients == "xla" else "native",
            "resumed": 0,
            "n_train": count(task.x),
            "n_test": 0 if task.test is None else count(task.test[0]),
            "settings": described(config) | {"batch_size": self._batch_size},
        }
        params = jax.vmap(epochs.flat.unravel)(particles)
        trace = {name: np.asarray(column) for name, column in rows.items()}
        weights = np.full(n, 1 / n, np.float32)
        data = (task.x, task.y)
        return Result(params, weights, None, None, found, trace, metrics, np.arange(n), task.model, data)

    def _fingerprint(self) -> dict[str, Any]:
        task, plan = self._task, self._compiled[-1].plan
        return {
            "method": task.config.name,
            **described(task.config),
            "micro_batch": plan.micro_batch,
            "particle_chunk": plan.particle_chunk,
            "gradients": plan.gradients,
            "programs": [digest for epochs in self._compiled for digest in epochs.programs],
            **task.identity,
            "seed": task.seed,
            **surroundings(numeric_sources("baselines")),
        }


class Trace:
    """One row per epoch."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs, self._rows = epochs, []

    def add(self, epoch: int, log_likelihood: float, scores: dict[str, Any]) -> None:
        """Add a row; `log_likelihood` is the mean over the epoch, per example."""
        cost = {"gradient_evaluations": self._epochs.evaluations, "runtime_s": self._epochs.seconds}
        tested = {name: value for name, value in scores.items() if name.startswith("test_")}
        self._rows.append({"iteration": epoch - 1, "log_likelihood": log_likelihood, **cost, **tested})

    def columns(self) -> Rows:
        """All rows, NaN where nothing was tested."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        return {name: [row.get(name, np.nan) for row in self._rows] for name in names}


def _equal(n: int, n_kept: int | None = None) -> Any:
    """Log-weights of which the first so many are equal, and the others zero."""
    n_kept = n if n_kept is None else n_kept
    return jnp.where(jnp.arange(n) < n_kept, -jnp.log(jnp.float32(n_kept)), -jnp.inf)


def _finite(candidate: Candidate) -> Candidate:
    """The same with None for a score that JSON can't hold."""
    score = candidate.validation_log_likelihood
    return candidate._replace(validation_log_likelihood=score if np.isfinite(score) else None)  # pyright: ignore[reportArgumentType]


def _status(value: float, scores: dict[str, Any]) -> str:
    tested = "".join(
        f"  {name} {scores[name]:.4g}" for name in ("test_accuracy", "test_log_likelihood") if name in scores
    )
    return f"log-likelihood {value:.4f}{tested}"
