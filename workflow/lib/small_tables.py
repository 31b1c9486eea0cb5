"""Tables of the small-data study: records whose numbers are rounded to the digits that are printed."""

import math
from typing import Any

import pandas as pd

from lib.labels import escape, ordered
from lib.latex import grouped
from lib.small_data import (
    EVIDENCE_CHOSEN,
    HIERARCHICAL_PRIOR,
    TOTAL,
    choose_priors,
    mean_over_seeds,
)
from lib.small_labels import METHODS, score_label
from lib.tables import Record, rounded
from smcda.config import ADAPTIVE

BASELINE = "deep_ensemble"
SHOWN = ("test_accuracy", "test_log_likelihood", "ece", "ood_auroc", "ood_auroc_mutual_information")
COMPARED = ("test_accuracy", "test_log_likelihood", "ood_auroc")
CELL = ["dataset", "n_train", "particles"]


def scores(runs: pd.DataFrame) -> list[Record]:
    """Scores and cost, means over seeds; prior scales chosen as `choose_priors` says."""
    means, records = mean_over_seeds(choose_priors(runs)), []
    for row in sorted_rows(means):
        record = {name: str(row[name]) for name in ("dataset", "method", "particles", "n_train", "n_seeds")}
        record |= {"prior_scales": row["prior_scales"]}
        for name in SHOWN:
            for part in ("mean", "std"):
                record[f"{name}_{part}"] = rounded(float(row[f"{name}_{part}"]), score_label(name).decimals)
        record["evaluations"] = rounded(row[f"{TOTAL}_mean"] / 1e6, 2)
        records.append(record)
    return records


def sorted_rows(means: pd.DataFrame) -> list[dict[str, Any]]:
    """By dataset, method in the order of the labels, particles and size."""
    place = {name: i for i, name in enumerate(ordered(means["method"], METHODS))}
    order = means.assign(place=means["method"].map(place))
    order = order.sort_values(
        ["dataset", "place", "particles", "n_train"], ascending=[False, True, True, True]
    )
    return order.drop(columns="place").to_dict("records")


def differences(runs: pd.DataFrame) -> pd.DataFrame:
    """Our two methods less the deep ensemble of as many networks: means over the seeds that both have."""
    chosen = choose_priors(runs)
    theirs = chosen.loc[chosen["method"] == BASELINE, [*CELL, "seed", *COMPARED]]
    ours = chosen[chosen["method"].isin((EVIDENCE_CHOSEN, HIERARCHICAL_PRIOR))]
    pairs = ours.merge(theirs, on=[*CELL, "seed"], suffixes=("", "_theirs"))
    for name in COMPARED:
        pairs[name] = pairs[name] - pairs[f"{name}_theirs"]
    means = pairs.groupby([*CELL, "method"], sort=False)[list(COMPARED)].mean()
    means["n_seeds"] = pairs.groupby([*CELL, "method"], sort=False)["seed"].nunique()
    return means.reset_index()


def versus(runs: pd.DataFrame) -> list[Record]:
    """The differences, with their sign."""
    records = []
    for row in sorted_rows(differences(runs)):
        record = {name: str(row[name]) for name in ("dataset", "method", "particles", "n_train", "n_seeds")}
        records.append(
            record | {name: rounded(row[name], score_label(name).decimals, sign="+") for name in COMPARED}
        )
    return records


def health(runs: pd.DataFrame) -> list[Record]:
    """Whether weights are alive, the worst over datasets, sizes and seeds.

    `evidence_sd` and `likelihood_sd` are standard deviations over seeds, the root of their mean square over
    datasets and sizes; `evidence_error` is likewise what the runs themselves state.
    """
    weighted, records = runs[runs["min_ess_share"].notna()], []
    for (method, prior, particles), own in weighted.groupby(
        ["method", "prior_scale", "particles"], sort=False
    ):
        of_cells = own.groupby(["dataset", "n_train"])
        known = of_cells["log_evidence"]
        record = {
            "method": method,
            "prior_scale": prior,
            "particles": str(particles),
            "n_runs": str(len(own)),
        }
        record |= {"acceptance": rounded(own["acceptance"].min(), 2)}
        record |= {"min_ess_share": rounded(own["min_ess_share"].min(), 3)}
        record |= {"drift": rounded(own["drift"].abs().max(), 2)}
        record |= {"n_withheld": str(int(own["log_evidence"].isna().sum()))}
        record |= {"evidence_sd": rounded(root_mean_square(known.std()), 2)}
        record |= {"evidence_error": rounded(root_mean_square(own["log_evidence_error"]), 2)}
        spread = of_cells["test_log_likelihood"].std()
        records.append(record | {"likelihood_sd": rounded(root_mean_square(spread), 3)})
    return sorted(records, key=lambda r: (r["method"], gain(r["prior_scale"]), int(r["particles"])))


def numbers(runs: pd.DataFrame) -> dict[str, str]:
    """What the text mentions: how much was run, and in how many cells ours is above the deep ensemble.

    A cell is a dataset, a size and a number of particles.
    """
    found = {"n_runs": grouped(len(runs))}
    for name in ("n_train", "particles", "seed"):
        found[name] = ", ".join(map(grouped, sorted(set(runs[name]))))
    found["machine"] = ", ".join(map(escape, sorted(set(runs["machine"]))))
    ours = runs[runs["scheme"] == ADAPTIVE]
    found |= {"n_evidence": grouped(len(ours)), "n_withheld": grouped(ours["log_evidence"].isna().sum())}
    apart = differences(runs)
    for method in (EVIDENCE_CHOSEN, HIERARCHICAL_PRIOR):
        own = apart[apart["method"] == method]
        found |= {f"{method}/of": grouped(len(own))}
        found |= {f"{method}/above/{score}": grouped((own[score] > 0).sum()) for score in COMPARED}
    return found


def root_mean_square(values: pd.Series) -> float:
    """Of the values that are there; NaN where none is."""
    return math.sqrt((values.dropna().astype(float) ** 2).mean()) if values.notna().any() else math.nan


def gain(prior_scale: str) -> float:
    """Order of prior scales on an axis: numbers, multiples of fan_in, the learnt last."""
    number, _, rest = prior_scale.rpartition("*")
    try:
        return float(number or {"fan_in": 1, "hierarchical": math.inf}.get(rest) or rest or 0)
    except ValueError:
        return math.inf


TABLES = {
    "small_data_scores": scores,
    "small_data_calibration": scores,
    "small_data_versus": versus,
    "small_data_health": health,
}
