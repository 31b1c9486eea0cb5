"""Choosing between candidates by a validation split of the training data; test data have no say in it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from smcda.baselines.config import BaselineConfig
from smcda.errors import Diverged
from smcda.runs.diagnostics import Diagnostic


class Candidate(NamedTuple):
    """A value that was tried, the validation log-likelihood it reached, and after how many epochs."""

    value: float
    validation_log_likelihood: float
    epochs: int


def choose(config: BaselineConfig, candidates: Sequence[Candidate]) -> Candidate:
    """The candidate of the best score."""
    scores = [each.validation_log_likelihood for each in candidates]
    if not np.isfinite(scores).any():
        tried = ", ".join(f"{each.value:g}" for each in candidates)
        raise Diverged(
            f"no {config.candidates_of} of {tried} has a finite validation log-likelihood: give smaller "
            "learning rates"
        )
    return candidates[int(np.nanargmax(np.where(np.isfinite(scores), scores, np.nan)))]


def doubts(config: BaselineConfig, chosen: Candidate, candidates: Sequence[Candidate]) -> list[Diagnostic]:
    """Whether the best may lie beyond what was tried."""
    found, name = [], config.candidates_of
    values = sorted(each.value for each in candidates)
    if len(values) > 1 and chosen.value in (values[0], values[-1]) and chosen.value > 0:
        which, more = ("largest", "larger") if chosen.value == values[-1] else ("smallest", "smaller")
        message = f"{name} {chosen.value:g} is the {which} that was tried: give {more} ones too"
        found.append(Diagnostic("search_at_end", chosen.value, message, spoils_evidence=False))
    most = getattr(config, "epochs", None)
    if values and most is not None and chosen.epochs == most:
        message = f"validation was best after the last of {most} epochs: raise epochs"
        found.append(Diagnostic("search_too_short", most, message, spoils_evidence=False))
    return found
