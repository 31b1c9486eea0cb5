"""The rule by which the start and the prior of the study are chosen (paper/reference/README.md).

It counts scores of the scheme `constant` within tolerance, per candidate, over both datasets, both kernels
and both numbers of particles, with means over seeds.
"""

from typing import Any

import pandas as pd
import yaml

from lib.published import RESOURCES, count_within, distances
from lib.reference import PARTICLES, Choice, mean_scores, read_reference
from lib.tables import CELL, Record, read_cells, rounded

CANDIDATES = [
    Choice(start, scale, batch_norm=normalised)
    for start, scale in (("prior", "0.1"), ("lecun", "1"))
    for normalised in (True, False)
]
N_PARTICLES, SEEDS = (4, 16), (0, 1, 2)
ONE = [*CELL, "seed"]


def read_constant(files: Any) -> pd.DataFrame:
    """Runs of `constant` that differ from the published settings in nothing but recorded choices."""
    runs, listed = read_reference(files.runs), read_reference(files.ablations)
    other_code = listed[listed["group"] == "data"]["ablation"]
    runs = runs[
        (runs["scheme"] == "constant") & ~runs["ablation"].isin(other_code) & runs["seed"].isin(SEEDS)
    ]
    stated = yaml.safe_load((RESOURCES / "published_settings.yaml").read_text())
    for name in ("iterations", "step_size", "batch_size"):
        runs = runs[runs[name] == stated[name]]
    return runs[runs["weight_target"] != "previous"]


def select(
    runs: pd.DataFrame,
    made: Choice,
    particles: int = PARTICLES,
    weighting: str = "target",
    start_seed: str = "",
) -> pd.DataFrame:
    """The runs of one choice; one that was made twice counts once."""
    same = (runs["particles"] == particles) & (runs["weighting"] == weighting)
    return runs[made.rows(runs) & same & (runs["start_seed"] == start_seed)].drop_duplicates(ONE)


def named(made: Choice) -> Record:
    """How a table names a choice."""
    normalised = "yes" if made.batch_norm else "no"
    return {"start": made.start, "prior_scale": made.prior_scale, "batch_norm": normalised}


def candidate(runs: pd.DataFrame, published: pd.DataFrame, made: Choice, weighting: str) -> Record:
    """Count a candidate's scores within tolerance, and add up its distances in tolerances."""
    parts = {n: select(runs, made, n, weighting) for n in N_PARTICLES}
    found = {n: distances(mean_scores(part), published) for n, part in parts.items() if len(part)}
    every = [value for each in found.values() for value in each]
    record = named(made) | {"weighting": weighting}
    record |= {f"within_{n}": str(count_within(found[n])) if n in found else "" for n in N_PARTICLES}
    record |= {"within": str(count_within(every)), "of": str(len(every))}
    record |= {"distance": rounded(sum(every), 2) if every else ""}
    return record | {"n_runs": str(sum(map(len, parts.values())))}


def choice(files: Any, _: Any = None) -> list[Record]:
    """The table of the rule: the candidates as published, then averaged as equals, which is no choice.

    One is chosen once every run of all candidates is there: the highest count, then the least distance.
    """
    runs, published = read_constant(files), read_cells(files.published)
    records = [candidate(runs, published, each, "target") for each in CANDIDATES]
    equals = [candidate(runs, published, each, "none") for each in CANDIDATES]
    n_cells = sum(key[1] == "constant" for key in published.index)
    complete = all(int(r["n_runs"]) == n_cells * len(N_PARTICLES) * len(SEEDS) for r in records)
    best = min(records, key=lambda r: (-int(r["within"]), float(r["distance"] or "inf")))
    marked = [r | {"chosen": "yes" if complete and r is best else ""} for r in records]
    return marked + [r | {"chosen": ""} for r in equals if int(r["n_runs"])]
