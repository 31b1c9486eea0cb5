"""The published claims, judged on the cells of a study that are there.

Two cells are compared over the seeds that both have, so that the luck of a seed is on both sides. An order
of two cells counts only where their means differ by more than both their standard deviations over seeds
together: in the study always, and in the published table where it gives the order. A cell with one seed is
given the largest standard deviation of its dataset and kernel in another scheme.
"""

import math
from itertools import combinations
from typing import NamedTuple

import pandas as pd

from lib.published import POINT
from lib.tables import Key, axis, number, published_speedup


class Study(NamedTuple):
    """Means of a study, what they are compared with, and its runs by cell and seed where they are known."""

    cells: pd.DataFrame
    published: pd.DataFrame
    runs: pd.DataFrame | None = None

    def pair(self, a: Key, b: Key, metric: str) -> tuple[float, float] | None:
        """Means of two cells over the seeds that both have; without their runs, the cells' own means."""
        if self.runs is None:
            means = tuple(number(self.cells, key, f"{metric}_mean") for key in (a, b))
        else:
            runs = self.runs[metric].astype(float)
            one, other = (runs[runs.index.droplevel("seed") == key].droplevel([0, 1, 2]) for key in (a, b))
            means = tuple(pd.concat([one, other], axis="columns", join="inner").mean())
        return None if any(map(math.isnan, means)) else means

    def spread(self, key: Key, metric: str) -> float:
        """Standard deviation of a cell over seeds; with one seed the largest of its dataset and kernel."""
        own = number(self.cells, key, f"{metric}_std")
        others = [other for other in self.cells.index if (other[0], other[2]) == (key[0], key[2])]
        known = [number(self.cells, other, f"{metric}_std") for other in others]
        return own if not math.isnan(own) else max((s for s in known if not math.isnan(s)), default=math.nan)

    def order(self, a: Key, b: Key, metric: str) -> bool | None:
        """Whether the first cell is above the second; None where the seeds spread too far to tell."""
        means = self.pair(a, b, metric)
        spread = self.spread(a, metric) + self.spread(b, metric)
        if means is None or not abs(means[0] - means[1]) > spread:
            return None
        return means[0] > means[1]


class Claim(NamedTuple):
    """A claim, the comparisons by which it is judged, and how many more the seeds leave open."""

    what: str
    required: str
    holds: list[bool]
    n_open: int = 0
    detail: str = ""


def ordering(study: Study, what: str, pairs: list[tuple[Key, Key]], metric: str) -> Claim:
    """A claim that the first cell of each pair is above the second."""
    ran = [pair for pair in pairs if study.pair(*pair, metric)]
    orders = [study.order(*pair, metric) for pair in ran]
    holds = [order for order in orders if order is not None]
    return Claim(what, "every clear pair", holds, len(orders) - len(holds))


def hmc_above_ld(study: Study, metric: str, what: str) -> Claim:
    """HMC's mean is above LD's, for every dataset and scheme."""
    cells = axis(study.published.index, 0, 1)
    return ordering(study, what, [((*cell, "hmc"), (*cell, "ld")) for cell in cells], metric)


def same_order(study: Study) -> Claim:
    """Two schemes stand in the published order of accuracy, wherever the published order is clear."""
    pairs = []
    for a, b in combinations(study.published.index, 2):
        theirs = [number(study.published, key, "test_accuracy_mean") for key in (a, b)]
        spread = sum(number(study.published, key, "test_accuracy_std") for key in (a, b))
        if (a[0], a[2]) == (b[0], b[2]) and abs(theirs[0] - theirs[1]) > spread:
            pairs.append((a, b) if theirs[0] > theirs[1] else (b, a))
    return ordering(study, "schemes in the published order", pairs, "test_accuracy")


def close_to_full_batch(study: Study) -> Claim:
    """Constant-to-refine is within a point of full batch for a fifth of its gradients or less."""
    answers, ratios = [], []
    for dataset, kernel in axis(study.published.index, 0, 2):
        keys = ((dataset, "constant_to_refine", kernel), (dataset, "full_batch", kernel))
        scores, costs = (study.pair(*keys, metric) for metric in ("test_accuracy", "gradient_evaluations"))
        if scores and costs:
            answers.append(abs(scores[0] - scores[1]) <= POINT and 5 * costs[0] <= costs[1])
            ratios.append(costs[1] / costs[0])
    shares = dict.fromkeys(f"1/{each(ratios):.1f}" for each in (max, min) if ratios)
    detail = f"{' to '.join(shares)} of the gradients" if ratios else ""
    what, required = "constant-to-refine close to full batch, cheaper", "1 point, a fifth of the gradients"
    return Claim(what, required, answers, detail=detail)


def fast_enough(study: Study, scheme: str, what: str) -> Claim:
    """Full batch takes at least the published multiple of a scheme's seconds."""
    keys = [key for key in study.published.index if key[1] == scheme]
    pairs = [
        (number(study.cells, key, "speedup_seconds"), published_speedup(study.published, key)) for key in keys
    ]
    holds = [ours >= theirs for ours, theirs in pairs if not math.isnan(ours)]
    return Claim(what, "the published ratio or more", holds)


def claims(study: Study) -> list[Claim]:
    """Every claim."""
    return [
        hmc_above_ld(study, "test_accuracy", "HMC above LD in accuracy"),
        hmc_above_ld(study, "test_log_likelihood", "HMC above LD in log-likelihood"),
        same_order(study),
        close_to_full_batch(study),
        fast_enough(study, "constant_to_refine", "full batch / constant-to-refine, seconds"),
        fast_enough(study, "constant", "full batch / constant, seconds"),
    ]
