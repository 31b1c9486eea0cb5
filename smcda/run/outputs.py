"""The files of a finished run: `trace.csv`, perhaps `posterior.npz`, and last `metrics.json`.

Each appears whole or not at all. `metrics.json` comes last: where it is, the run is complete.
"""

import json
import os
import platform
import resource
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smcda import __version__
from smcda._io import atomic_write, fsync
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


def remove_stale(out: Path) -> None:
    """Remove temporary files: whoever holds the folder's lock knows that nobody is writing them."""
    for name in NAMES:
        for path in out.glob(f".{name}.*"):
            path.unlink()


def write_results(
    out: Path, metrics: dict[str, Any], trace: dict[str, Any], posterior: dict[str, Any] | None
) -> None:
    """Write the results of a finished run into the folder `out`; `posterior` is particles and weights.

    What an earlier run left there is replaced once all files are written, and stays if one can't be.
    """
    with ExitStack() as written:
        # They take their places in reverse order, metrics.json last.
        new = {name: written.enter_context(atomic_write(out / name)) for name in NAMES[: 2 + bool(posterior)]}
        if posterior:
            with new["posterior.npz"].open("wb") as stream:
                np.savez(stream, **posterior)
        new["trace.csv"].write_text(_csv(trace), encoding="utf-8")
        new["metrics.json"].write_text(
            json.dumps(metrics, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )
        for path in new.values():
            fsync(path)
        # Only renames are left. Without metrics.json nothing passes for finished until the last of them.
        for name in ("metrics.json", "posterior.npz"):
            (out / name).unlink(missing_ok=True)


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
