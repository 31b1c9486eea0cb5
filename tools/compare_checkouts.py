"""Compare the results of two checkouts on this machine, bit by bit: `python tools/compare_checkouts.py A B`.

Both make the same tiny runs through `smcda.cli.main`, each with its own package, in processes of their own.
One line per run says that all numbers are identical, or which differ first and by how much. Exits with 0 if
all are identical, else with 1. Native gradients need a C++ compiler.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SCHEMES = ("constant", "full_batch", "constant_to_refine", "linear", "automated", "smooth_data_annealing")
DEFAULTS = {
    "--model": "lenet5", "--kernel": "hmc", "--seed": "1", "--prior-scale": "0.1", "--particles": "4",
    "--iterations": "12", "--step-size": "0.02", "--batch-size": "20", "--initial-batch": "20",
    "--resampling": "multinomial", "--weight-target": "current", "--delta-entropy": "1.0",
    "--beta-restart": "0.1", "--refine-from": "0.75", "--evaluate-every": "4", "--checkpoint-every": "0",
    "--gradients": "native", "--device": "cpu", "--devices": "1", "--quiet": "", "--save-posterior": "",
}  # fmt: skip
CLOCKS = {"runtime_s", "compile_s", "evaluation_s", "checkpoint_s", "peak_memory_mb", "resumed"}
NOT_COMPARED = CLOCKS | {"versions", "fingerprint", "prior_scale"}
ANCESTORS, SCHEDULE = ("unique_ancestors", "resampled"), ("batch_size", "beta")

# Runs in a checkout's process: its own package must be the one that is imported.
WORKER = """
import json, sys
from pathlib import Path
import smcda
from smcda.cli import main
checkout, commands = Path(sys.argv[1]), json.loads(sys.argv[2])
assert Path(smcda.__file__).resolve().is_relative_to(checkout), f"{smcda.__file__} is not in {checkout}"
for command in commands:
    code = main(command)
    if code:
        sys.exit(f"exit code {code}: smcda {' '.join(command)}")
"""


def cases() -> dict[str, list[str]]:
    """Arguments of each run, by name."""
    cnn = {"--model": "fashion_cnn", "--scheme": "linear", "--batch-norm": ""}
    sda = {"--scheme": "smooth_data_annealing"}
    chosen = {f"{s} {k}": {"--scheme": s, "--kernel": k} for s in SCHEMES for k in ("ld", "hmc")} | {
        "batch norm, native": cnn,
        "batch norm, xla": cnn | {"--gradients": "xla"},
        "linear, xla": {"--scheme": "linear", "--gradients": "xla"},
        "smooth_data_annealing, xla": sda | {"--gradients": "xla"},
        "weight target previous": sda | {"--weight-target": "previous"},
        "systematic": sda | {"--resampling": "systematic"},
        "residual": {"--scheme": "linear", "--resampling": "residual"},
        "2 devices, native": {"--scheme": "linear", "--devices": "2"},
        "2 devices, xla": sda | {"--devices": "2", "--gradients": "xla"},
    }
    words = {name: (DEFAULTS | options).items() for name, options in chosen.items()}
    return {name: [word for pair in pairs for word in pair if word] for name, pairs in words.items()}


def start(checkout: Path, folder: Path, commands: list[list[str]], n_devices: int) -> subprocess.Popen[bytes]:
    """Start a process that runs the commands with the checkout's package, from a folder outside it."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={n_devices}"
    chosen = {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "XLA_FLAGS": flags.strip()}
    arguments = [sys.executable, "-c", WORKER, str(checkout), json.dumps(commands)]
    return subprocess.Popen(arguments, cwd=folder, env=os.environ | chosen)


def run_all(checkouts: list[Path], folders: list[Path]) -> None:
    """Make every run, both checkouts at once; the first one's data serve both."""
    data = str(folders[0] / "images.npz")
    command = ["data", "mnist", "--bundled", "--train", "120", "--test", "60", "--out", data]
    failed = start(checkouts[0], folders[0], [command], 1).wait()
    for n_devices in (1, 2):
        processes = []
        for checkout, folder in zip(checkouts, folders, strict=True):
            files = ["--data", data, "--compilation-cache", str(folder / "compiled")]
            commands = [
                ["run", *words, *files, "--out", str(folder / name)]
                for name, words in cases().items()
                if ("2 devices" in name) == (n_devices == 2)
            ]
            processes.append(start(checkout, folder, commands, n_devices))
        failed += sum(process.wait() != 0 for process in processes)
    if failed:
        sys.exit("a command failed: see above")


def numbers(value: Any, name: str) -> dict[str, Any]:
    """Numbers in metrics.json by dotted name."""
    if isinstance(value, int | float):
        return {name: np.array(float(value))}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    parts = [numbers(part, f"{name}.{key}") for key, part in items if key not in NOT_COMPARED]
    return {leaf: number for part in parts for leaf, number in part.items()}


def results(out: Path) -> dict[str, Any]:
    """Everything that must repeat, as arrays by name: the trace, then the posterior, then the metrics."""
    with (out / "trace.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    names = [name for name in rows[0] if name not in NOT_COMPARED]
    found = {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}
    with np.load(out / "posterior.npz") as posterior:
        found |= {f"posterior.{name}": posterior[name] for name in posterior.files}
    return found | numbers(json.loads((out / "metrics.json").read_text()), "metrics")


def verdict(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Say "identical", or what differs; a key that only one metrics.json has is not compared."""
    lone = [name for name in one.keys() ^ other.keys() if not name.startswith("metrics.")]
    apart = [f"only one side has {name}" for name in sorted(lone)]
    for name in (name for name in one if name in other):
        a, b = one[name], other[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            apart.append(f"{name} is {a.dtype}{a.shape} and {b.dtype}{b.shape}")
        elif a.tobytes() != b.tobytes():
            apart.append(f"{name} by {np.nanmax(np.abs(a - b)):.3g}")
    if not apart:
        return "identical"
    same = [
        f"{title} {'equal' if all(np.array_equal(one[name], other[name]) for name in names) else 'DIFFER'}"
        for title, names in (("ancestors", ANCESTORS), ("schedule", SCHEDULE))
    ]
    return f"{', '.join(same)}; {len(apart)} differ, first {', '.join(apart[:4])}"


def main() -> int:
    """Run, compare and print one line per run."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    checkouts = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / side for side in "AB"]
        for folder in folders:
            folder.mkdir()
        run_all(checkouts, folders)
        lines = {case: verdict(*(results(folder / case) for folder in folders)) for case in cases()}
    for case, line in lines.items():
        print(f"{case:28} {line}")
    return int(any(line != "identical" for line in lines.values()))


if __name__ == "__main__":
    sys.exit(main())
