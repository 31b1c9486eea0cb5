"""How far the results of a sampler under several seeds are from a reference posterior."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

REFERENCE = Path(__file__).parents[1] / "statistical" / "reference.json"


class Result(NamedTuple):
    """What one seed gave: mean and standard deviation per quantity, log evidence and its estimated error."""

    mean: dict[str, np.ndarray]
    sd: dict[str, np.ndarray]
    log_evidence: float
    log_evidence_error: float


class Accuracy(NamedTuple):
    """Errors of means over seeds, in standard deviations of the posterior and relative; errors of log Z."""

    mean_error: float
    sd_error: float
    log_evidence_rmse: float
    n_covered: int


def reference(name):
    """What is known about a problem: its entry of reference.json."""
    return json.loads(REFERENCE.read_text())[name]


def summarise(problem, parameters, weights, log_evidence, log_evidence_error):
    """Result of one seed from weighted particles; weights sum to one."""
    weights = np.asarray(weights, np.float64)
    mean, sd = {}, {}
    for name, values in problem.quantities(parameters).items():
        values = np.asarray(values, np.float64)
        mean[name] = weights @ values
        sd[name] = np.sqrt(weights @ (values - mean[name]) ** 2)
    return Result(mean, sd, log_evidence, log_evidence_error)


def accuracy(results, reference):
    """Compare the results of several seeds with an entry of the reference; a NaN anywhere stays one.

    `n_covered` counts the seeds whose log evidence is within two of its own estimated errors of the truth.
    """
    mean_errors, sd_errors = [], []
    for name, truth in reference["quantities"].items():
        mean, sd = np.array(truth["mean"]), np.array(truth["sd"])
        mean_errors.append(np.abs(np.mean([result.mean[name] for result in results], axis=0) - mean) / sd)
        sd_errors.append(np.abs(np.mean([result.sd[name] for result in results], axis=0) / sd - 1))
    errors = np.array([result.log_evidence for result in results]) - reference["log_evidence"]
    estimated = np.array([result.log_evidence_error for result in results])
    return Accuracy(
        float(np.max(np.concatenate(mean_errors))),
        float(np.max(np.concatenate(sd_errors))),
        float(np.sqrt(np.mean(errors**2))),
        int(np.sum(np.abs(errors) <= 2 * estimated)),
    )
