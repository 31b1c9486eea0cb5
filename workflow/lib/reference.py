"""The reference data (paper/reference): which rows are the main study, and which are ablations of it.

One table holds all runs at full data. The main study is the one that the paper reports: prior scale 0.1,
batch normalisation for FashionMNIST, four particles. An ablation changes one thing in its scheme `constant`.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from lib.labels import SCORES
from lib.tables import CELL, Cells

PRIOR_SCALE, PARTICLES = "0.1", 4
PRIORS = (PRIOR_SCALE, "fan_in")
"""Both priors with which the study was run."""

ABLATIONS = {
    "particles_2": ("2 particles", "particles"),
    "particles_8": ("8 particles", "particles"),
    "particles_16": ("16 particles", "particles"),
    "particles_32": ("32 particles", "particles"),
    "particles_100": ("100 particles", "particles"),
    "equal_weights": ("equal weights, no resampling", "weights"),
    "equal_weights_32": ("the same, 32 particles", "weights"),
    "weight_target_previous": ("weighted by the previous target", "weights"),
    "prior_scale_0.05": ("prior scale 0.05", "model"),
    "prior_scale_0.2": ("prior scale 0.2", "model"),
    "fan_in_prior": ("prior variance 1/fan-in per layer", "model"),
    "fan_in_prior_no_batch_norm": ("the same, no batch normalisation", "model"),
    "no_batch_norm": ("no batch normalisation", "model"),
    "standardised": ("pixels of mean 0 and variance 1", "data"),
    "max_pooling": ("max pooling in LeNet-5", "data"),
    "minibatch_per_gradient": ("fresh minibatch per gradient", "data"),
    "minibatch_per_particle": ("one minibatch per particle", "data"),
    "ld_equal_gradients": ("LD, as many gradients as HMC", "LD"),
    "ld_2h": ("LD with 2h", "LD"),
    "ld_3h": ("LD with 3h", "LD"),
    "ld_3h_equal_gradients": ("LD with 3h, as many gradients as HMC", "LD"),
}
"""What each ablation changes, and the group of rows it belongs to, in the order of the table."""

PRIOR_OF = {
    "prior_scale_0.05": "0.05",
    "prior_scale_0.2": "0.2",
    "fan_in_prior": "fan_in",
    "fan_in_prior_no_batch_norm": "fan_in",
}
"""Ablations whose prior is not the main study's: all others with another prior belong to another study."""

REPEATS = ("flat_prior", "flat_prior_no_batch_norm")
"""Ablations of the study with the fan-in prior; they repeat the main study and its `no_batch_norm`."""


def read_reference(file: Path) -> pd.DataFrame:
    """Read a reference table; an empty ablation is the study itself, and a prior scale is text."""
    table = pd.read_csv(file, dtype={"ablation": str, "prior_scale": str, "commit": str})
    return table.fillna({"ablation": ""})


def select_study(table: pd.DataFrame, prior_scale: str = PRIOR_SCALE) -> pd.DataFrame:
    """Rows of the main study, or of the same study with another prior."""
    normalised = table["batch_norm"] == (table["dataset"] == "fashion_mnist")
    chosen = (table["ablation"] == "") & (table["prior_scale"] == prior_scale)
    return table[chosen & normalised & (table["particles"] == PARTICLES)]


def select_ablations(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of the main study's ablations, in the order of the table; unknown ones come last."""
    names = [*ABLATIONS, *sorted(set(runs["ablation"]) - {"", *ABLATIONS, *REPEATS})]
    own_prior = runs["ablation"].map(lambda name: PRIOR_OF.get(name, PRIOR_SCALE))
    rows = runs[runs["ablation"].isin(names) & (runs["prior_scale"] == own_prior)]
    return rows.sort_values("ablation", key=lambda column: column.map(names.index), kind="stable")


def mean_scores(runs: pd.DataFrame) -> Cells:
    """Mean scores per cell, as text."""
    groups = runs.groupby(list(CELL), sort=False)
    columns: dict[str, Any] = {}
    for score in SCORES:
        columns |= {f"{score}_mean": groups[score].mean(), f"{score}_std": groups[score].std(ddof=1)}
    table = pd.DataFrame(columns)
    return {key: {name: str(value) for name, value in row.items()} for key, row in table.iterrows()}  # type: ignore
