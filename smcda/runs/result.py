"""What a run ends with: weighted particles, how far to trust them, and what to do with them."""

import dataclasses
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from smcda._io import atomic_write
from smcda.config import check_run_options
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.models.flat import Parameters, flattened, parameter_shapes, ravel, sampled_shapes, unravelling
from smcda.parallel.plan import few_at_once, particle_outputs
from smcda.runs.checks import check_data, check_inputs
from smcda.runs.diagnostics import Diagnostic
from smcda.runs.evaluation import particle_log_likelihood, predict
from smcda.runs.structure import from_json, to_json
from smcda.runs.summary import Summary, summarise
from smcda.smc.batches import count

CLOCKS = ("runtime_s", "compile_s", "evaluation_s", "checkpoint_s", "resumed")
FLAT = {"params": "particles", "sampled": "sampled"}
"""Arrays of a saved result that hold parameters: those the model takes, and those that were sampled."""
TRACE = "trace/"
"""Prefix of a column of the trace in a saved result."""


@dataclasses.dataclass(frozen=True)
class Result:
    """Weighted samples of a posterior, and how far to trust them.

    Attributes:
        params: parameters, each array with a leading axis for the particles.
        weights: one per particle, summing to one; all equal where moves are adjusted.
        log_evidence: logarithm of the marginal likelihood, or None where it can't be trusted.
        log_evidence_error: its standard error, in nats.
        diagnostics: reasons for doubt, none for a healthy run.
        trace: one array per column of `trace.csv`, one entry per iteration; `pandas.DataFrame` takes it.
        metrics: test metrics, settings, seconds and counts, as in `metrics.json`.
        root_ancestor: which of the first draws each particle descends from.
        model: what was sampled; a loaded result has the one that `load` was given.
        data: inputs and outputs that the posterior has seen; not saved.
        sampled: what `params` were computed from, where the prior has a `transform` (`priors.hierarchical`).

    """

    params: Parameters
    weights: Float[np.ndarray, " particle"]
    log_evidence: float | None
    log_evidence_error: float | None
    diagnostics: list[Diagnostic]
    trace: dict[str, np.ndarray] = dataclasses.field(repr=False)
    metrics: dict[str, Any] = dataclasses.field(repr=False)
    root_ancestor: np.ndarray = dataclasses.field(repr=False)
    model: Model | None = dataclasses.field(default=None, repr=False)
    data: tuple[Any, Any] | None = dataclasses.field(default=None, repr=False)
    sampled: Parameters | None = dataclasses.field(default=None, repr=False)

    def summary(self) -> Summary:
        """Mean, standard deviation, quantiles and effective sample size of every parameter."""
        return summarise(self.params, self.weights, self.root_ancestor)

    def predict(self, x: Any) -> Any:
        """The posterior predictive of new inputs, a mixture of all particles' own under their weights.

        Probabilities for classes; mean and standard deviation for numbers (`likelihoods.Prediction`).
        """
        model = self._model("predict")
        if model.likelihood is None or model.likelihood.predictive is None:
            raise BadInput(
                "this model has no predictive: sample a Model with a likelihood that has one, such as "
                "likelihoods.gaussian()"
            )
        x = check_inputs(model, x, None if self.data is None else self.data[0])
        flat = flattened(model.joint_prior)
        outputs = particle_outputs(model, flat, few_at_once(len(self.weights), flat.n_parameters))
        return predict(model, outputs, x, self.particles, self._log_weights())

    def resample(self, n: int | None = None, seed: int = 0) -> "Result":
        """The posterior as `n` equally weighted particles (systematic resampling); by default as many."""
        n = len(self.weights) if n is None else n
        if not isinstance(n, int | np.integer) or n < 1:
            raise BadInput(
                f"n is {n!r}, but must be a whole number of at least 1: {len(self.weights)} is the default"
            )
        check_run_options(seed=seed)
        cumulated = np.cumsum(np.asarray(self.weights, np.float64))
        places = (np.random.default_rng(seed).uniform() + np.arange(n)) / n * cumulated[-1]
        rows = np.minimum(np.searchsorted(cumulated, places, side="right"), len(cumulated) - 1)
        return dataclasses.replace(
            self,
            params=jax.tree.map(lambda leaf: leaf[rows], self.params),
            sampled=jax.tree.map(lambda leaf: leaf[rows], self.sampled),
            weights=np.full(n, 1 / n, np.float32),
            root_ancestor=self.root_ancestor[rows],
        )

    def extend(self, x_new: Any, y_new: Any, *, seed: int | None = None, progress: bool = True) -> "Result":
        """Continue to the posterior of these and more examples, by scheme `adaptive`.

        The new examples alone decide the way there and the evidence, which grows by theirs; moves look at
        all examples, which is why the data must be at hand. The result is exact where this one is.
        """
        from smcda.runs.run import extend

        return extend(self, x_new, y_new, seed=seed, progress=progress)

    def to_arviz(self, log_likelihood: bool = False) -> Any:
        """The posterior for ArviZ (an extra: ``smcda[arviz]``), as one chain.

        Weights are in `sample_stats`. ArviZ's own summaries do not read them: where they are not equal,
        `resample` first. `log_likelihood` adds that of every example under every particle.
        """
        try:
            arviz: Any = import_module("arviz")
        except ModuleNotFoundError as error:
            raise BadInput("to_arviz needs ArviZ: pip install 'smcda[arviz]'") from error
        groups = {
            "posterior": {name: np.asarray(leaf)[None] for name, leaf in _by_name(self.params)},
            "sample_stats": {"weight": self.weights[None], "root_ancestor": self.root_ancestor[None]},
        }
        if log_likelihood:
            model, (x, y) = self._model("to_arviz"), self._data("to_arviz")
            groups["log_likelihood"] = {"y": particle_log_likelihood(model, self.particles, x, y)[None]}
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups)
        return arviz.from_dict(**groups)

    def save(self, path: str | Path) -> None:
        """Write everything but model, data and clocks to one ``.npz``, whole or not at all."""
        trees = {"params": self.params} | ({} if self.sampled is None else {"sampled": self.sampled})
        about = {
            **{name: to_json(_of_one(tree)) for name, tree in trees.items()},
            "log_evidence": self.log_evidence,
            "log_evidence_error": self.log_evidence_error,
            "diagnostics": [list(doubt) for doubt in self.diagnostics],
            "metrics": {name: value for name, value in self.metrics.items() if name not in CLOCKS},
        }
        # Equal results give equal bytes, however long they took.
        arrays = {f"{TRACE}{name}": column for name, column in self.trace.items() if name not in CLOCKS}
        arrays |= {FLAT[name]: np.asarray(jax.vmap(ravel)(tree)) for name, tree in trees.items()}
        arrays |= {"weights": self.weights, "root_ancestor": self.root_ancestor}
        arrays |= {"about": np.array(json.dumps(about))}
        # An open file, because numpy would append .npz to a name without it.
        with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]

    @classmethod
    def load(
        cls, path: str | Path, model: Model | None = None, data: tuple[Any, Any] | None = None
    ) -> "Result":
        """Read what `save` wrote. Nothing in the file is executed.

        Args:
            path: the file, also a run's ``posterior.npz``.
            model: that was sampled, for `predict`.
            data: ``(x, y)`` that it was sampled from, for `extend`.

        """
        if not isinstance(model, Model | None):
            raise BadInput(f"model is of type {type(model).__name__}, but must be the Model that was sampled")
        if data is not None:
            if not isinstance(data, tuple) or len(data) != 2:
                raise BadInput("data must be a pair (x, y); y may be None")
            data = check_data(*data)
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            about = json.loads(str(arrays.pop("about")))
            flats = {name: jnp.asarray(arrays.pop(key)) for name, key in FLAT.items() if key in arrays}
            shapes = {name: from_json(about[name]) for name in flats}
            if model is not None:
                prior = model.joint_prior
                shapes = {"params": parameter_shapes(prior)}
                if prior.transform is not None:
                    shapes["sampled"] = sampled_shapes(prior)
            found = {name: flat.shape[1] for name, flat in flats.items()}
            unravels = {name: unravelling(each) for name, each in shapes.items()}
            if found != (wanted := {name: n for name, (n, _) in unravels.items()}):
                raise BadInput(
                    f"{path} has {_numbers(found)} per particle, but the model {_numbers(wanted)}: "
                    "give the model that was sampled"
                )
            trees = {name: jax.vmap(unravels[name][1])(flat) for name, flat in flats.items()}
            return cls(
                trees["params"],
                arrays["weights"],
                about["log_evidence"],
                about["log_evidence_error"],
                [Diagnostic(*doubt) for doubt in about["diagnostics"]],
                {
                    name.removeprefix(TRACE): column
                    for name, column in arrays.items()
                    if name.startswith(TRACE)
                },
                about["metrics"],
                arrays["root_ancestor"],
                model,
                data,
                trees.get("sampled"),
            )
        except BadInput:
            raise
        except (
            Exception
        ) as error:  # numpy, zipfile and json raise nearly anything on damaged or foreign files
            reason = "it is not an archive of arrays" if "pickle" in str(error) else error
            raise BadInput(f"{path} cannot be read as a saved result: {reason}") from error

    def _model(self, what: str) -> Model:
        if self.model is None:
            raise BadInput(f"{what} needs the model that was sampled: Result.load(path, model=...)")
        return self.model

    def _data(self, what: str) -> tuple[Any, Any]:
        if self.data is None:
            raise BadInput(
                f"{what} needs the data that were sampled from: Result.load(path, model, data=(x, y))"
            )
        return self.data

    @property
    def particles(self) -> Any:
        """What was sampled, as one flat vector per particle."""
        return jax.vmap(ravel)(self.params if self.sampled is None else self.sampled)

    def _log_weights(self) -> Any:
        with np.errstate(divide="ignore"):
            return jnp.asarray(np.log(self.weights))


def n_examples(result: Result) -> int:
    """How many examples a posterior has seen."""
    return count(result._data("extend")[0])  # noqa: SLF001


def _of_one(params: Parameters) -> Parameters:
    """Shapes of one particle's parameters."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), params)


def _numbers(found: dict[str, int]) -> str:
    sampled = f" made of {found['sampled']} numbers" if "sampled" in found else ""
    return f"{found['params']} parameters{sampled}"


def _by_name(params: Parameters) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [
        (jax.tree_util.keystr(path, simple=True, separator=".") or "parameter", leaf) for path, leaf in leaves
    ]
