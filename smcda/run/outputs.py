"""The files of a finished run: `trace.csv`, perhaps `posterior.npz`, and last `metrics.json`.

Each appears whole or not at all. `metrics.json` comes last: where it is, the run is complete.
"""

import json
import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smcda import __version__
from smcda._io import atomic_write, write_text
from smcda.errors import BadInput

NAMES = ("metrics.json", "trace.csv", "posterior.npz")


def check_output(out: Path, overwrite: bool) -> None:
    """Refuse an output folder that can't be written, or that holds a finished run."""
    check_folder("out", out)
    if (out / "metrics.json").exists() and not overwrite:
        raise BadInput(f"output {out} holds a finished run: choose another --out, or give --overwrite")


def check_folder(name: str, folder: Path) -> None:
    """Refuse a folder that does not exist and can't be made, or can't be written."""
    option = f"--{name.replace('_', '-')}"
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{name} {folder} is a file, but must be a folder: choose another {option}")
    parent = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise BadInput(
            f"{name} {folder} can't be made, {parent} is not a writable folder: choose another {option}"
        )


def remove_results(out: Path) -> None:
    """Remove what an earlier run left, so that old and new never stand side by side."""
    for name in NAMES:
        # Temporary files too: whoever holds the folder's lock knows that nobody is writing them.
        for path in (out / name, *out.glob(f".{name}.*")):
            path.unlink(missing_ok=True)


def write_results(
    out: Path, metrics: dict[str, Any], trace: dict[str, Any], posterior: dict[str, Any] | None
) -> None:
    """Write the results of a finished run into the folder `out`; `posterior` is particles and weights."""
    write_text(out / "trace.csv", _csv(trace))
    if posterior is not None:
        with atomic_write(out / "posterior.npz") as path, path.open("wb") as stream:
            np.savez(stream, **posterior)
    write_text(out / "metrics.json", json.dumps(metrics, indent=2, allow_nan=False) + "\n")


def _csv(columns: dict[str, Any]) -> str:
    """Rows of the trace; numbers in the shortest form that reads back the same, None as an empty cell."""
    rows = zip(*columns.values(), strict=True)
    return "".join(",".join(row) + "\n" for row in (columns, *(map(_cell, row) for row in rows)))


def _cell(value: Any) -> str:
    if isinstance(value, np.bool_):
        value = int(value)
    return "" if value is None else str(value)


def peak_memory_mb() -> float:
    """Peak of the device's own memory, or of the process where the device is the CPU."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "peak_bytes_in_use" in statistics:
        return statistics["peak_bytes_in_use"] / 2**20
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: its peak begins with what the parent process held when it started this one.
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 2**10
    unit = 2**20 if platform.system() == "Darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def versions() -> dict[str, str]:
    """What the result was made with."""
    packages = {name: version(name) for name in ("jax", "jaxlib", "flax", "numpy")}
    return {"smcda": __version__, "python": platform.python_version(), **packages}
