"""A study that was never run: the files that a study leaves, with numbers that are easy to check."""

import json
import subprocess
import sys

import pandas as pd
from helpers.study import REFERENCE, ROOT

ARCHIVE = ROOT / "tools" / "archive_runs.py"
PROVENANCE = {"machine": "a machine", "python": "3.12.0", "commit": "0123456789ab"}
SETTINGS = {"step_size": 0.002, "leapfrog_steps": 1, "batch_size": 500, "initial_batch": 500}
SETTINGS |= {"resampling": "multinomial", "weight_target": "current", "weighting": "target"}


def make_run(study, scheme="constant", kernel="ld", seed=0, ablation="", **values):
    """Write what `smcda run` would have; a value of None removes a key."""
    place = study / "ablations" / ablation if ablation else study / "runs"
    folder = place / "mnist" / scheme / kernel / f"seed-{seed}"
    folder.mkdir(parents=True)
    columns = pd.read_csv(REFERENCE / "runs.csv", nrows=0).columns
    inner = {*SETTINGS, "smcda_version", "jax_version", "flax_version", "ablation"}
    metrics = dict.fromkeys(columns.difference(inner), 1.0)
    metrics |= {"log_evidence": None, "device": "cpu", "gradients": "native"}
    metrics |= {"dataset": "mnist", "scheme": scheme, "kernel": kernel, "seed": seed, "model": "lenet5"}
    metrics |= {
        "particles": 4,
        "iterations": 200,
        "n_train": 60_000,
        "n_test": 10_000,
        "prior_scale": 0.1,
        "start": "prior",
        "start_seed": None,
        "batch_norm": False,
    }
    metrics |= (
        PROVENANCE | {"versions": {"smcda": "1", "jax": "2", "flax": "3"}, "settings": SETTINGS} | values
    )
    metrics = {name: value for name, value in metrics.items() if value is not None or name not in values}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    columns = "iteration,batch_size,beta,ess,unique_ancestors,gradient_evaluations"
    rows = "0,5,1,2,2,10,,\n1,5,1,2,2,20,-0.5,80\n"
    (folder / "trace.csv").write_text(f"{columns},test_log_likelihood,test_accuracy\n{rows}")


def make_curvature(study, *eigenvalues, seed=0, without=()):
    """Write what `measure_curvature.py` would have."""
    file = study / "curvature" / "mnist" / "ld" / f"seed-{seed}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    run = {
        "dataset": "mnist",
        "scheme": "constant",
        "kernel": "ld",
        "seed": seed,
        "prior_scale": 0.1,
        "start": "prior",
    }
    run |= {"batch_norm": False, "particles": 4, "step_size": 0.002, "n_train": 60_000} | PROVENANCE
    rows = [run | {"iteration": k, "eigenvalue": value} for k, value in enumerate(eigenvalues)]
    pd.DataFrame(rows).drop(columns=list(without)).to_csv(file, index=False)


def empty_reference(folder):
    """Reference tables without a row."""
    folder.mkdir()
    for name in ("runs", "traces", "curvature"):
        (folder / f"{name}.csv").write_text((REFERENCE / f"{name}.csv").read_text().splitlines()[0] + "\n")
    return folder


def archive(study, into):
    """Call the command that adds a study to reference tables."""
    command = [sys.executable, ARCHIVE, study, "--into", into]
    return subprocess.run(command, check=False, capture_output=True, text=True)
