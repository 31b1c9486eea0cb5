"""How planning and summarising grow with the number of runs: the figures in docs/cluster.md.

    python tools/time_large_studies.py 1000 10000 100000

For each size, in a folder that is removed afterwards: seconds and memory of a dry run before anything
is there, and with `--finished` also of one when all runs are (made up: copies of one real run), and of the
summary.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))
sys.path.insert(0, str(Path(__file__).parents[1] / "workflow" / "scripts"))
from lib.study import Study, resolve
from summarise import runs_table, summarise

ROOT = Path(__file__).parents[1]
CELLS = 24
"""Datasets x schemes x kernels of the study; a larger one has more seeds."""


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    cpu_seconds: float
    memory_mb: float | None = None


def main() -> None:
    """Print one line per size and measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", type=int, nargs="+", help="numbers of runs, rounded up to whole seeds")
    parser.add_argument("--finished", action="store_true", help="also make runs up and summarise them")
    arguments = parser.parse_args()
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            study = _lay_out(folder, n_seeds=-(-size // CELLS))
            n_runs = len(study.runs())
            _say(n_runs, "dry run, nothing there", _dry_run(folder))
            if arguments.finished:
                _time_finished(folder, study, n_runs)


def _lay_out(folder: Path, n_seeds: int) -> Study:
    """Copy what Snakemake reads, with a config of that many seeds."""
    for name in ("Snakefile", "workflow", "profiles", "paper", "smcda"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"scale": "tiny"}
    config["scales"]["tiny"]["seeds"] = list(range(n_seeds))
    (folder / "config.yaml").write_text(yaml.safe_dump(config, default_flow_style=None))
    return resolve(config)


def _dry_run(folder: Path) -> Cost:
    snakemake = Path(sys.executable).with_name("snakemake")
    command = [str(snakemake), "-n", "--quiet", "rules", "--cores", "1"]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(errors)
    seconds, cpu_seconds = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    return Cost(seconds, cpu_seconds, usage.ru_maxrss / 2**10)


def _time_finished(folder: Path, study: Study, n_runs: int) -> None:
    root = folder / study.folder
    files = _make_up(study, root)
    _say(n_runs, "summary", _summarise(study, files))
    _say(n_runs, "dry run, all runs there", _dry_run(folder))


def _make_up(study: Study, root: Path) -> list[Path]:
    """Results of one real run, under every name."""
    run = _one_run(root)
    metrics, trace = json.loads((run / "metrics.json").read_text()), (run / "trace.csv").read_text()
    files = []
    for each in study.runs():
        folder = root / "runs" / each["dataset"] / each["scheme"] / each["kernel"] / f"seed-{each['seed']}"
        folder.mkdir(parents=True)
        (folder / "trace.csv").write_text(trace)
        (folder / "metrics.json").write_text(json.dumps(metrics | each, indent=2))
        files.append(folder / "metrics.json")
    return files


def _one_run(root: Path) -> Path:
    smcda, out = str(Path(sys.executable).with_name("smcda")), root.parent / "one"
    for dataset in ("mnist", "fashion_mnist"):
        data = root / "data" / f"{dataset}.npz"
        subprocess.run([smcda, "data", dataset, "--bundled", "--out", str(data)], check=True)
    what = ["--model", "fashion_cnn", "--scheme", "constant", "--kernel", "ld", "--seed", "0"]
    how = ["--particles", "2", "--iterations", "200", "--batch-size", "2", "--device", "cpu", "--quiet"]
    subprocess.run([smcda, "run", "--data", str(data), *what, *how, "--out", str(out)], check=True)
    return out


def _summarise(study: Study, files: list[Path]) -> Cost:
    started, cpu_started = time.perf_counter(), time.process_time()
    summarise(runs_table(study.runs(), files), study.runs())
    return Cost(time.perf_counter() - started, time.process_time() - cpu_started)


def _say(n_runs: int, what: str, cost: Cost) -> None:
    memory = f"{cost.memory_mb:8.0f} MB" if cost.memory_mb else ""
    seconds = f"{cost.seconds:8.1f} s ({cost.cpu_seconds:.1f} s of CPU)"
    print(f"{n_runs:8,d} runs  {what:35s} {seconds:28s} {memory}", flush=True)


if __name__ == "__main__":
    main()
