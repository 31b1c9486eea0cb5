"""The files of a finished run: `trace.csv`, perhaps `posterior.npz`, and last `metrics.json`.

Each appears whole or not at all. `metrics.json` comes last: where it is, the run is complete. The files of a
finished run that is to be replaced stay until those of the new run are complete.
"""

import json
import os
import platform
import resource
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from smcda import __version__
from smcda._io import fsync, write_text
from smcda.errors import BadInput

if TYPE_CHECKING:
    from smcda.runs.result import Result

NAMES = ("trace.csv", "posterior.npz", "metrics.json")
NEW = ".new"
"""Folder, inside that of a finished run, of the results that are to replace it."""


def check_output(out: Path, overwrite: bool) -> None:
    """Refuse an output folder that can't be written, or that holds a finished run."""
    check_folder("out", out)
    if (out / "metrics.json").exists() and not overwrite:
        raise BadInput(f"output {out} holds a finished run: choose another, or overwrite (--overwrite)")


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


def remove_unfinished(out: Path) -> None:
    """Remove what an unfinished run left, so that old and new never stand side by side."""
    finished = (out / "metrics.json").exists()
    shutil.rmtree(out / NEW, ignore_errors=True)
    for name in NAMES:
        # Temporary files too: whoever holds the folder's lock knows that nobody is writing them.
        for path in (*out.glob(f".{name}.*"), *[out / name] * (not finished)):
            path.unlink(missing_ok=True)


def write_results(
    out: Path, metrics: dict[str, Any], trace: dict[str, Any], posterior: "Result | None"
) -> None:
    """Write the results of a finished run into the folder `out`, the posterior only where one is given.

    A finished run that is there is replaced once all files are on the disk, and stays if one can't be.
    """
    if not (out / "metrics.json").exists():
        return _write(out, metrics, trace, posterior)
    try:
        _write(out / NEW, metrics, trace, posterior)
        # Until the last rename the run counts as unfinished, so that no mixture passes for complete.
        (out / "metrics.json").unlink()
        for name in NAMES:
            fsync(out)
            if (out / NEW / name).exists():
                (out / NEW / name).replace(out / name)
            else:
                (out / name).unlink(missing_ok=True)
        fsync(out)
    finally:
        shutil.rmtree(out / NEW, ignore_errors=True)


def _write(folder: Path, metrics: dict[str, Any], trace: dict[str, Any], posterior: "Result | None") -> None:
    """Write one file after the other, `metrics.json` last."""
    write_text(folder / "trace.csv", _csv(trace))
    if posterior is not None:
        posterior.save(folder / "posterior.npz")
    write_text(folder / "metrics.json", json.dumps(metrics, indent=2, allow_nan=False) + "\n")


def _csv(columns: dict[str, Any]) -> str:
    """Rows of the trace; numbers in the shortest form that reads back the same, NaN as an empty cell."""
    rows = zip(*columns.values(), strict=True)
    return "".join(",".join(row) + "\n" for row in (columns, *(map(_cell, row) for row in rows)))


def _cell(value: Any) -> str:
    if isinstance(value, np.bool_):
        value = int(value)
    return "" if value != value else str(value)


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
