"""A study that was never run: the files that evidence is made from, with numbers that are easy to check."""

import json
import subprocess
import sys

from curvature import COLUMNS
from summary import RUN_COLUMNS
from verify import PUBLISHED

SCRIPT = PUBLISHED.parents[1] / "scripts" / "evidence.py"


def make_run(study, scheme, kernel, seed, **values):
    """Write what `smcda run` would have."""
    folder = study / "runs" / "mnist" / scheme / kernel / f"seed-{seed}"
    folder.mkdir(parents=True)
    metrics = dict.fromkeys(RUN_COLUMNS, 1.0)
    metrics |= {"dataset": "mnist", "scheme": scheme, "kernel": kernel, "seed": seed}
    metrics |= {"particles": 4, "iterations": 200} | values
    metrics |= {"gradients": "native", "batch_norm": False, "resumed": 2}
    metrics |= {"versions": {"smcda": "1", "jax": "2", "flax": "3"}}
    names = ("step_size", "leapfrog_steps", "batch_size", "initial_batch", "resampling", "weight_target")
    metrics |= {"settings": dict.fromkeys(names, 7) | {"step_size": 0.002}}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    columns = "iteration,batch_size,beta,ess,unique_ancestors,gradient_evaluations"
    rows = "0,5,1,2,2,10,,\n1,5,1,2,2,20,-0.5,80\n"
    (folder / "trace.csv").write_text(f"{columns},test_log_likelihood,test_accuracy\n{rows}")


def make_variant(study, name, seed, accuracy, **values):
    file = study / "variants" / "mnist" / name / "ld" / f"seed-{seed}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {"dataset": "mnist", "variant": name, "kernel": "ld", "particles": 4, "iterations": 200}
    scores = {"test_log_likelihood": -0.3, "test_accuracy": accuracy}
    file.write_text(json.dumps(about | {"step_size": 0.002, "seed": seed} | scores | values))


def make_curvature(study, kernel, seed, *eigenvalues):
    file = study / "curvature" / "mnist" / kernel / f"seed-{seed}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"mnist,{kernel},{seed},4,{k},0.002,60000,{value}" for k, value in enumerate(eigenvalues)]
    file.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")


def make_study(folder):
    """Three runs, two variants and one look at the curvature."""
    make_run(folder, "constant", "ld", 0, test_accuracy=90.0, runtime_s=2.0)
    make_run(folder, "constant", "ld", 1, test_accuracy=92.0, runtime_s=2.0)
    make_run(folder, "full_batch", "ld", 1, test_accuracy=95.0, runtime_s=100.0)
    for seed, accuracy in enumerate((90.0, 91.0, 95.0)):
        make_variant(folder, "standardised", seed, accuracy)
    make_variant(folder, "fan_in_prior", 0, 50.0)
    make_curvature(folder, "ld", 0, 1.0, 17.0)
    return folder


def keep(study, into, commit):
    """Call the command that keeps a study's tables in a folder."""
    command = [sys.executable, SCRIPT, study, "--into", into, "--commit", commit]
    return subprocess.run(command, check=False, capture_output=True, text=True)
