"""Runs with numbers that are easy to check: what the figures are drawn from."""

import itertools

import numpy as np
import pandas as pd

K, N, C = 10, 100, 20
SIZES = {
    "constant": [20] * 10,
    "full_batch": [100] * 10,
    "constant_to_refine": [20] * 9 + [100],
    "linear": [20, 40, 60, 80, 100, 100, 100, 100, 100, 100],
    "automated": [20, 20, 40, 40, 60, 60, 80, 80, 80, 100],
    "smooth_data_annealing": [20, 20, 20, 40, 40, 60, 60, 60, 80, 80],
}
OTHER = [20] * 5 + [100] * 5  # of a scheme that the labels do not know
BETA = [0.3, 0.8, 1, 0.1, 1, 0.1, 0.6, 1, 0.1, 0.7]
ALL = {
    "dataset": ["mnist", "fashion_mnist"],
    "scheme": list(SIZES),
    "kernel": ["ld", "hmc"],
    "seed": [0, 1],
}
ONE = {"dataset": ["fashion_mnist"], "scheme": ["constant"], "kernel": ["hmc"], "seed": [7]}
STUDIES = {"all": ALL, "column": ALL | {"dataset": ["mnist"], "kernel": ["hmc"]}, "one": ONE}


def runs_of(study):
    return [dict(zip(study, values, strict=True)) for values in itertools.product(*study.values())]


def traces_of(study):
    """Every run scores 10 k + seed per cent, in the evaluated iterations 1, 3, 5, ..."""
    k = np.arange(K)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    **run,
                    "iteration": k,
                    "batch_size": SIZES.get(run["scheme"], OTHER),
                    "n_batches": np.array(SIZES.get(run["scheme"], OTHER)) // C,
                    "beta": BETA if run["scheme"] == "smooth_data_annealing" else 1.0,
                    "ess": 1.0 + k + 2 * run["seed"],
                    "unique_ancestors": K - k,
                    "gradient_evaluations": np.cumsum(SIZES.get(run["scheme"], OTHER)) * 3,
                    "test_accuracy": np.where(k % 2, 10.0 * k + run["seed"], np.nan),
                    "test_log_likelihood": np.where(k % 2, -2.3 + 0.1 * k, np.nan),
                }
            )
            for run in runs_of(study)
        ],
        ignore_index=True,
    )


def summary_of(study):
    cells = runs_of(study | {"seed": [0]})
    std = 1.5 if len(study["seed"]) > 1 else np.nan
    return pd.DataFrame(
        [
            {
                **cell,
                "gradient_evaluations_mean": 1000.0 * (i % 12 + 1),
                "gradient_evaluations_std": 0.0,
                "test_accuracy_mean": 50.0 + 7 * i % 40,
                "test_accuracy_std": std,
                "test_log_likelihood_mean": -1 / (i + 1),
                "test_log_likelihood_std": std,
            }
            for i, cell in enumerate(cells)
        ]
    )


def bins_of(study):
    columns = {
        "bin": [0, 1, 2],
        "confidence": [0.0, 0.5, 0.9],
        "accuracy": [0, 0.4, 1],
        "n_examples": [0, 4, 6],
    }
    return pd.concat([pd.DataFrame(columns).assign(**run) for run in runs_of(study)], ignore_index=True)
