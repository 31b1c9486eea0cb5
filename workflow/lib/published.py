"""The published table, and whether a mean agrees with it.

A mean agrees if it lies within the tolerance: three published standard deviations or the least difference
that matters, whichever is larger.
"""

import math
from pathlib import Path

import pandas as pd
import yaml

from lib.labels import SCORES
from lib.tables import Key, number

RESOURCES = Path(__file__).resolve().parents[1] / "resources"
PUBLISHED = RESOURCES / "published_table.csv"
POINT = 1.0
NATS = {"mnist": 0.02, "fashion_mnist": 0.03}
"""Differences in accuracy and in log-likelihood that never fail a cell."""


def tolerance(published: pd.DataFrame, key: Key, metric: str) -> float:
    """Three published standard deviations, or the least difference that matters if that is more."""
    least = NATS[key[0]] if metric == "test_log_likelihood" else POINT
    return max(3 * number(published, key, f"{metric}_std"), least)


def distance(cells: pd.DataFrame, published: pd.DataFrame, key: Key, metric: str) -> float:
    """How far a mean is from the published one, in tolerances; NaN where either is not there."""
    ours, theirs = (number(table, key, f"{metric}_mean") for table in (cells, published))
    return abs(ours - theirs) / tolerance(published, key, metric)


def distances(cells: pd.DataFrame, published: pd.DataFrame, scores: tuple[str, ...] = SCORES) -> list[float]:
    """Distances of all scores that are there."""
    found = [distance(cells, published, key, score) for key in cells.index for score in scores]
    return [value for value in found if not math.isnan(value)]


def count_within(found: list[float]) -> int:
    """How many distances are within tolerance."""
    return sum(value <= 1 for value in found)


def n_within(cells: pd.DataFrame, published: pd.DataFrame, scores: tuple[str, ...] = SCORES) -> int:
    """How many scores are within tolerance."""
    return count_within(distances(cells, published, scores))


def one_image() -> float:
    """The accuracy in per cent that one test image is worth."""
    return 100 / yaml.safe_load((RESOURCES / "published_settings.yaml").read_text())["n_test"]
