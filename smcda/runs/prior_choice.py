"""The width of the prior, chosen by the evidence of the data under each: no test data are needed."""

import dataclasses
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from smcda.config import SamplerConfig
from smcda.errors import BadInput
from smcda.models.base import Model
from smcda.runs.result import Result
from smcda.runs.run import run

SCALES = (0.5, 1.0, 2.0, 4.0)
logger = logging.getLogger("smcda")


@dataclasses.dataclass(frozen=True, repr=False)
class PriorChoice:
    """Log evidence by prior scale; prints as a table.

    Attributes:
        scale: the one of largest log evidence, or None where no evidence can be trusted.
        results: what was sampled with each.
        doubts: what to bear in mind of the choice, in one line each.

    """

    scale: Any
    results: Mapping[Any, Result]
    doubts: list[str]

    @property
    def result(self) -> Result:
        """The posterior at the chosen scale."""
        if self.scale is None:
            raise BadInput(f"no prior scale was chosen: {' '.join(self.doubts)}")
        return self.results[self.scale]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per scale: evidence, its error, test scores, cost and the names of its diagnostics."""
        return [
            {
                "scale": scale,
                "log_evidence": result.log_evidence,
                "log_evidence_error": result.log_evidence_error,
                **{name: result.metrics[name] for name in _scores(result)},
                "gradient_evaluations": result.metrics["gradient_evaluations"],
                "diagnostics": ", ".join(doubt.name for doubt in result.diagnostics),
            }
            for scale, result in self.results.items()
        ]

    def __repr__(self) -> str:
        rows = [{name: _cell(value) for name, value in row.items()} for row in self.table]
        rows = [dict(zip(rows[0], rows[0], strict=True)), *rows]
        widths = {name: max(len(row[name]) for row in rows) for name in rows[0]}
        lines = ["  ".join(row[name].rjust(widths[name]) for name in row) for row in rows]
        return "\n".join([*lines, f"chosen: {self.scale}", *self.doubts])

    __str__ = __repr__

    def plot(self, axes: Any = None) -> Any:
        """Draw log evidence and test log-likelihood against the scale; gives Matplotlib's axes.

        Bars are one standard error. Scales without evidence are left out.
        """
        if axes is None:
            axes = import_module("matplotlib.pyplot").subplots()[1]
        numbers = _are_numbers(self.results)
        places = dict(zip(self.results, self.results if numbers else range(len(self.results)), strict=True))
        known = [row for row in self.table if row["log_evidence"] is not None]
        axes.errorbar(
            [places[row["scale"]] for row in known],
            [row["log_evidence"] for row in known],
            [row["log_evidence_error"] for row in known],
            marker="o",
            color="C0",
        )
        if numbers:
            axes.set_xscale("log")
        axes.set_xticks(list(places.values()), [str(scale) for scale in places])
        axes.minorticks_off()  # a logarithmic axis would label them between the scales
        axes.set_xlabel("prior scale")
        axes.set_ylabel("log evidence", color="C0")
        if self.scale is not None:
            axes.axvline(places[self.scale], color="grey", linestyle=":")
        tested = [row for row in self.table if "test_log_likelihood" in row]
        if tested:
            other = axes.twinx()
            scores = [row["test_log_likelihood"] for row in tested]
            other.plot([places[row["scale"]] for row in tested], scores, marker="s", color="C1")
            other.set_ylabel("test log-likelihood", color="C1")
        return axes


def choose_prior_scale(
    model_of_scale: Callable[[Any], Model],
    data: Any,
    scales: Sequence[Any] = SCALES,
    config: SamplerConfig | None = None,
    *,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> PriorChoice:
    """Sample the posterior under each of several priors, and choose the one of largest log evidence.

    Args:
        model_of_scale: ``(scale) -> Model``, such as
            ``lambda scale: from_flax(network, x, likelihood, priors.fan_in(scale))``.
        data: as `run` takes them.
        scales: what to call it with: numbers, or whatever else tells priors apart.
        config: how to sample; by default the adaptive sampler.
        seed: of every one of the runs.
        progress: whether to show each run and print a line when it is done.
        **options: others of `run`, such as `test`, whose scores are shown and play no part in the choice.

    Scales whose evidence a diagnostic withholds can't be chosen.

    """
    scales = list(scales)
    if not scales or len(set(scales)) < len(scales):
        raise BadInput(f"scales are {scales}, but must be different ones, and at least one: correct them")
    if "out" in options:
        raise BadInput(
            "out is one run's folder, but every scale is a run of its own: save results afterwards"
        )
    results = {}
    for scale in scales:
        results[scale] = run(model_of_scale(scale), data, config, seed=seed, progress=progress, **options)
        if progress:
            print(f"prior scale {scale}: {_evidence(results[scale])}", file=sys.stderr, flush=True)
    choice = PriorChoice(_best(results), results, _doubts(results))
    for doubt in choice.doubts:
        logger.warning(doubt)
    return choice


def _best(results: Mapping[Any, Result]) -> Any:
    known = {scale: found.log_evidence for scale, found in results.items() if found.log_evidence is not None}
    return max(known, key=lambda scale: known[scale], default=None)


def _doubts(results: Mapping[Any, Result]) -> list[str]:
    """What makes the choice less than certain."""
    best, found = _best(results), []
    withheld = [scale for scale, result in results.items() if result.log_evidence is None]
    if withheld:
        names = ", ".join(map(str, withheld))
        found.append(
            f"there is no evidence to be trusted at prior scale {names}: the choice is without; see the "
            "diagnostics of these runs"
        )
    if best is None:
        return found
    z, error = results[best].log_evidence, results[best].log_evidence_error
    assert z is not None and error is not None
    for scale, result in results.items():
        if scale == best or result.log_evidence is None or result.log_evidence_error is None:
            continue
        apart, noise = z - result.log_evidence, 2 * math.hypot(error, result.log_evidence_error)
        if apart < noise:
            found.append(
                f"prior scales {best} and {scale} differ by {apart:.2f} nats of log evidence, within "
                f"two standard errors ({noise:.2f}): use more particles to tell them apart"
            )
    if _are_numbers(results) and len(results) > 1 and best in (min(results), max(results)):
        further = "larger" if best == max(results) else "smaller"
        found.append(f"prior scale {best} is at the end of those that were tried: try {further} ones too")
    return found


def _are_numbers(scales: Any) -> bool:
    return all(isinstance(scale, int | float) and scale > 0 for scale in scales)


def _scores(result: Result) -> list[str]:
    """Names of the two test scores that are shown."""
    wanted = ("test_log_likelihood", "test_accuracy", "test_rmse")
    return [name for name in wanted if name in result.metrics]


def _evidence(result: Result) -> str:
    if result.log_evidence is None:
        names = ", ".join(doubt.name for doubt in result.diagnostics) or "the weights do not estimate it"
        return f"no log evidence ({names})"
    return f"log evidence {result.log_evidence:.2f} +- {result.log_evidence_error:.2f}"


def _cell(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
