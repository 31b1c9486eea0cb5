"""What else than start and prior may explain the published figures.

An explanation changes how particles are weighted or started, or which number is read off a run, and is
compared with the same runs without it: by scores within tolerance, by their mean distance in tolerances, and
by the spread over seeds.
"""

from typing import Any

import pandas as pd

from lib.choice import CANDIDATES, ONE, named, read_constant, select
from lib.labels import SCORES
from lib.published import distances, n_within
from lib.reference import MAIN, RUN, Choice, mean_scores, read_reference, select_study
from lib.tables import Record, read_cells, rounded

EXPLANATIONS = {
    "equal_weights": "equal weights, no resampling",
    "weighting_plain": "weight without N/M",
    "same_start": "same first particles for every seed",
    "particle_accuracy": "mean accuracy of the particles",
    "best": "best evaluation along the run",
}
BEST_EVERYWHERE = "the same, all schemes that were run"


def at_their_best(runs: pd.DataFrame, traces: pd.DataFrame) -> pd.DataFrame:
    """The same runs with the best score of their traces instead of the last, each score for itself."""
    best = traces.groupby(RUN, as_index=False)[list(SCORES)].max()
    return runs.drop(columns=list(SCORES)).merge(best, on=RUN)


def explained(runs: pd.DataFrame, traces: pd.DataFrame, made: Choice, name: str) -> pd.DataFrame:
    """The runs of one choice with an explanation."""
    if name == "equal_weights":
        return select(runs, made, weighting="none")
    if name == "weighting_plain":
        return select(runs, made, weighting="plain")
    if name == "same_start":
        return select(runs, made, start_seed="0")
    if name == "best":
        return at_their_best(select(runs, made), traces)
    own = select(runs, made)
    return own.assign(test_accuracy=own["particle_accuracy"]).dropna(subset="test_accuracy")


def beside(
    own: pd.DataFrame, plain: pd.DataFrame, published: pd.DataFrame, scores: tuple[str, ...]
) -> list[Record]:
    """The numbers with and without an explanation, over the runs that both have; nothing without runs."""
    both = own[ONE].merge(plain[ONE])
    if both.empty:
        return []
    record = {"n_runs": str(len(both))}
    for suffix, table in (("", own), ("_without", plain)):
        cells = mean_scores(table.merge(both))
        found = distances(cells, published, scores)
        record |= {f"within{suffix}": str(n_within(cells, published, scores)), "of": str(len(found))}
        record |= {f"distance{suffix}": rounded(sum(found) / len(found), 2)}
        record |= {f"{score}_sd{suffix}": rounded(cells[f"{score}_std"].mean(), 3) for score in scores}
    with_spread = published.loc[list(cells[cells[f"{scores[0]}_std"].notna()].index)]
    record |= {f"{score}_sd_published": rounded(with_spread[f"{score}_std"].mean(), 3) for score in scores}
    return [record]


def explanations(files: Any, _: Any = None) -> list[Record]:
    """Every explanation for every candidate of the rule in `constant`; the last for the main study too."""
    runs, traces, published = read_constant(files), read_reference(files.traces), read_cells(files.published)
    records = []
    for name, words in EXPLANATIONS.items():
        scores = SCORES[:1] if name == "particle_accuracy" else SCORES
        for made in CANDIDATES:
            about = {"explanation": name, "words": words} | named(made)
            own, plain = explained(runs, traces, made, name), select(runs, made)
            records += [about | record for record in beside(own, plain, published, scores)]
    study = select_study(read_reference(files.runs))
    about = {"explanation": "best_everywhere", "words": BEST_EVERYWHERE} | named(MAIN)
    return records + [
        about | record for record in beside(at_their_best(study, traces), study, published, SCORES)
    ]
