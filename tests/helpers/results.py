"""A small data file to run on, and what must be equal in the results of two runs."""

import csv
import json
from pathlib import Path

import numpy as np

BUNDLED = Path(__file__).parents[2] / "smcda" / "data" / "bundled"
CLOCKS = ("runtime_s", "compile_s", "evaluation_s", "checkpoint_s", "peak_memory_mb", "resumed")
RESULTS = ["metrics.json", "posterior.npz", "trace.csv"]


def write_data(path, n_train=60, n_test=30):
    """Write bundled images; tests that use equal numbers share compiled programs."""
    with np.load(BUNDLED / "mnist.npz") as bundled:
        sizes = {"train_x": n_train, "train_y": n_train, "test_x": n_test, "test_y": n_test}
        np.savez(path, **{name: bundled[name][:size] for name, size in sizes.items()})
    return path


def contents(out):
    """Metrics and rows of the trace without clocks, and the posterior's bytes if there are any."""
    metrics = json.loads((out / "metrics.json").read_text())
    rows = list(csv.reader((out / "trace.csv").read_text().splitlines()))
    clock = rows[0].index("runtime_s")
    posterior = out / "posterior.npz"
    return (
        {name: value for name, value in metrics.items() if name not in CLOCKS},
        [row[:clock] + row[clock + 1 :] for row in rows],
        posterior.read_bytes() if posterior.exists() else None,
    )


def files(folder):
    """Names in a folder, but for the files that are no results: the lock, and what `smcda watch` reads."""
    return sorted(path.name for path in folder.iterdir() if path.name not in (".lock", ".status.json"))
