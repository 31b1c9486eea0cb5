"""The reference data (paper/reference): which rows are the main study, and their mean scores.

One table holds all runs at full data. The published text leaves a start, a prior and batch normalisation
open; a `Choice` fills them in. The main study is the one that the paper reports, with `MAIN` and four
particles. An ablation changes one thing in its scheme `constant`.
"""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.labels import SCORES
from lib.tables import CELL


class Choice(NamedTuple):
    """What a study chose where the published text is silent."""

    start: str
    prior_scale: str
    batch_norm: bool  # of FashionMNIST's network; LeNet-5 has none

    def rows(self, table: pd.DataFrame) -> pd.Series:
        """Whether each row of a table of runs, traces or curvature was made with this choice."""
        normalised = self.batch_norm & (table["dataset"] == "fashion_mnist")
        same = (table["start"] == self.start) & (table["prior_scale"] == self.prior_scale)
        return same & (table["batch_norm"] == normalised)


RUN = ["ablation", "start", "prior_scale", "dataset", "scheme", "kernel", "batch_norm", "particles", "seed"]
"""What names a run, in the order of the rows."""

MAIN, PARTICLES = Choice("prior", "0.1", batch_norm=True), 4
FAN_IN = Choice("prior", "fan_in", batch_norm=True)
CHOSE = ("constant", "constant_to_refine")
"""Schemes whose cells decided something in `MAIN`: no independent evidence."""

STUDIES = {"main": MAIN, "fan_in": FAN_IN}
"""The choices with which more than the scheme `constant` was run."""


def read_reference(file: Path) -> pd.DataFrame:
    """Read a reference table; an empty ablation is the study itself, and a prior scale is text."""
    text = dict.fromkeys(("ablation", "prior_scale", "start_seed", "commit"), str)
    return pd.read_csv(file, dtype=text).fillna({"ablation": "", "start_seed": ""})


def select_study(table: pd.DataFrame, choice: Choice = MAIN) -> pd.DataFrame:
    """Rows of the main study, or of the same study with another choice."""
    return table[(table["ablation"] == "") & choice.rows(table) & (table["particles"] == PARTICLES)]


def mean_scores(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation of the scores, one row per cell."""
    statistics = runs.groupby(CELL, sort=False)[list(SCORES)].agg(["mean", "std"])
    return statistics.set_axis([f"{score}_{part}" for score, part in statistics.columns], axis="columns")
