"""Rows of the small-data study with numbers that are easy to check; nothing is run."""

import pandas as pd
from lib.small_data import COLUMNS


def small_row(method="smc_adaptive", prior_scale="fan_in", **values):
    """One run; an ensemble and SGHMC have no evidence, but a validation score."""
    ours = method.startswith("smc")
    row = dict.fromkeys(COLUMNS) | {"dataset": "mnist", "n_train": 500, "particles": 16, "seed": 0}
    row |= {"method": method, "prior_scale": prior_scale, "gradient_evaluations": 100, "diagnostics": ""}
    row |= {"scheme": "adaptive" if method == "smc_adaptive" else "linear" if ours else method}
    row |= {"test_accuracy": 90.0, "test_log_likelihood": -0.3, "ece": 0.1, "brier": 0.2}
    row |= {"ood_auroc": 0.9, "ood_auroc_mutual_information": 0.8, "machine": "a machine", "commit": "0123"}
    if ours:
        row |= {"log_evidence": -300.0, "log_evidence_error": 1.0, "min_ess_share": 0.5, "drift": -0.1}
        row |= {"acceptance": 0.8} if method == "smc_adaptive" else {"log_evidence": None}
    else:
        row |= {"validation_log_likelihood": -0.4, "search_gradient_evaluations": 50}
    return row | values


def small_table(*rows):
    """The table of some rows."""
    return pd.DataFrame(rows, columns=COLUMNS)


def whole_grid(datasets=("mnist", "fashion_mnist"), sizes=(250, 500, 1000, 2000), seeds=(0, 1, 2)):
    """Rows of every method, whose scores rise with the number of images."""
    rows = []
    for dataset in datasets:
        for i, n_train in enumerate(sizes):
            for seed in seeds:
                here = {"dataset": dataset, "n_train": n_train, "seed": seed}
                scores = {"test_accuracy": 80.0 + 4 * i + seed, "test_log_likelihood": -0.8 + 0.15 * i}
                for j, particles in enumerate((16, 32, 64)):
                    own = here | {"particles": particles, "gradient_evaluations": 10**6 * (i + 1) * (j + 1)}
                    for k, scale in enumerate(("fan_in", "2*fan_in", "4*fan_in", "8*fan_in", "hierarchical")):
                        more = {"test_accuracy": scores["test_accuracy"] - abs(k - 2) + j}
                        evidence = -100.0 * (i + 1) * (1 + (k - 2) ** 2 / 4) + 5 * j + seed
                        rows.append(
                            small_row(prior_scale=scale, log_evidence=evidence, **own | scores | more)
                        )
                    rows.append(small_row("deep_ensemble", "", **own | scores))
                own = here | scores | {"gradient_evaluations": 4 * 10**5 * (i + 1)}
                rows.append(small_row("smc_linear_hmc", "0.1", **own))
                for scale in ("fan_in", "2*fan_in"):
                    rows.append(small_row("sghmc", scale, **own))
    return small_table(*rows)
