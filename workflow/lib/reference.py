"""The reference data (paper/reference): which rows are the main study, and their mean scores.

One table holds all runs at full data. The main study is the one that the paper reports: prior scale 0.1,
batch normalisation for FashionMNIST, four particles. An ablation changes one thing in its scheme `constant`.
"""

from pathlib import Path

import pandas as pd

from lib.labels import SCORES
from lib.tables import CELL

PRIOR_SCALE, PARTICLES = "0.1", 4
PRIORS = (PRIOR_SCALE, "fan_in")
"""Both priors with which the study was run."""


def read_reference(file: Path) -> pd.DataFrame:
    """Read a reference table; an empty ablation is the study itself, and a prior scale is text."""
    table = pd.read_csv(file, dtype={"ablation": str, "prior_scale": str, "commit": str})
    return table.fillna({"ablation": ""})


def select_study(table: pd.DataFrame, prior_scale: str = PRIOR_SCALE) -> pd.DataFrame:
    """Rows of the main study, or of the same study with another prior."""
    normalised = table["batch_norm"] == (table["dataset"] == "fashion_mnist")
    chosen = (table["ablation"] == "") & (table["prior_scale"] == prior_scale)
    return table[chosen & normalised & (table["particles"] == PARTICLES)]


def mean_scores(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of the scores, one row per cell."""
    statistics = runs.groupby(CELL, sort=False)[list(SCORES)].agg(["mean", "std"])
    return statistics.set_axis([f"{score}_{part}" for score, part in statistics.columns], axis="columns")
