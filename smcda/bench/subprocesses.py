"""Measures that need processes of their own: memory, the start, and two runs at once."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from smcda.bench.timing import Sizes, images
from smcda.data.dataset import save

Figures = dict[str, Any]
Started = tuple[subprocess.Popen[str], Path]


class Commands:
    """`smcda run` as a child process, in a folder that goes away."""

    def __init__(self, folder: Path) -> None:
        """Keep everything in `folder`."""
        self._folder = folder
        self._count = 0

    def data(self, n_images: int) -> Path:
        """A data file with so many training images."""
        path = self._folder / f"{n_images}.npz"
        if not path.exists():
            save(path, images(n_images))
        return path

    def start(self, n_images: int, cache: str = "cache", **options: Any) -> Started:
        """Start a run; its options are those of `smcda run`."""
        self._count += 1
        out = self._folder / f"run-{self._count}"
        given = {
            "data": self.data(n_images),
            "model": "lenet5",
            "seed": 0,
            "out": out,
            "evaluate-every": 10_000,
            "compilation-cache": self._folder / cache,
        } | {name.replace("_", "-"): value for name, value in options.items()}
        command = [sys.executable, "-m", "smcda.cli", "run"]
        command += [text for name, value in given.items() for text in (f"--{name}", str(value))]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ
        )
        return process, out

    def results(self, *started: Started) -> list[dict[str, Any]]:
        """Wait for runs and read what they wrote."""
        for process, _ in started:
            _, said = process.communicate()
            if process.returncode:
                raise RuntimeError(f"a run of the benchmark failed: {said.strip().splitlines()[-1:]}")
        return [json.loads((out / "metrics.json").read_text()) for _, out in started]


def peak_memory(commands: Commands, sizes: Sizes) -> Figures:
    """(e) Peak memory of a run on all images over one on a batch, beyond the data themselves."""
    data_mb = sizes.full * 28 * 28 / 2**20
    peaks = []
    # The first run compiles, which takes more memory than sampling; it does not count.
    for scheme in ("constant", "constant", "full_batch"):
        run = commands.start(
            sizes.full,
            scheme=scheme,
            kernel="ld",
            particles=sizes.particles,
            iterations=2,
            batch_size=sizes.batch,
        )
        (metrics,) = commands.results(run)
        peaks.append(metrics["peak_memory_mb"] - data_mb)
    _, small, large = peaks
    return {"memory_60000_over_500": large / small, "memory_mb": [small, large]}


def start_up(commands: Commands, sizes: Sizes) -> Figures:
    """(g) Start of the process to the end of its first iteration, laptop scale, cold and warm cache."""

    def seconds(cache: str) -> float:
        started = time.perf_counter()
        process, _ = commands.start(
            400,
            cache=cache,
            scheme="linear",
            kernel="ld",
            particles=4,
            iterations=4,
            batch_size=20,
            step_size=0.0245,
        )
        for line in process.stderr or ():
            if line.startswith("iteration"):
                took = time.perf_counter() - started
                process.communicate()
                return took
        raise RuntimeError("a run of the benchmark ended before its first iteration")

    cold = seconds("cold")
    return {"cold_start_s": cold, "warm_start_s": min(seconds("cold") for _ in range(max(2, sizes.rounds)))}


def two_at_once(commands: Commands, sizes: Sizes) -> Figures:
    """(h) What two single-threaded runs at once get done, over what one does alone."""

    def start() -> Started:
        # Long enough that the two overlap for nearly all of their time.
        return commands.start(
            2_000,
            scheme="constant",
            kernel="ld",
            particles=sizes.particles,
            iterations=sizes.iterations // 4,
            batch_size=sizes.batch,
            threads=1,
        )

    commands.results(start())
    alone, together = [], []
    for _ in range(min(3, sizes.rounds)):
        alone.append(commands.results(start())[0]["runtime_s"])
        pair = commands.results(start(), start())
        together.append(max(metrics["runtime_s"] for metrics in pair))
    return {"two_runs_over_one": 2 * min(alone) / min(together)}


def all_processes(sizes: Sizes) -> Figures:
    """Take every measure of this module."""
    with tempfile.TemporaryDirectory(prefix="smcda-bench-") as folder:
        commands = Commands(Path(folder))
        figures: Figures = {}
        for measure in (peak_memory, start_up, two_at_once):
            figures |= measure(commands, sizes)
        return figures
