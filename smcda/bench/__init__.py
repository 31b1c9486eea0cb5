"""How fast the package is: ratios, measured in one process by turns, the best of several.

Each measure stands for something that an implementation gets wrong easily: recomputing what is known,
recompiling, cost or memory that grows faster than the work, a start that takes longer than the run. The
table says what was found and what is asked for; a figure that falls short is shown as falling short.
"""

import json
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from smcda._io import write_text
from smcda.bench import roofline as cost
from smcda.bench import subprocesses as processes
from smcda.bench import suite as measures
from smcda.bench.timing import PUBLISHED, QUICK, Sizes
from smcda.errors import BadInput

Figures = dict[str, Any]

MEASURES: dict[str, Callable[[Sizes], Figures]] = {
    "matmul": measures.against_the_matrix_product,
    "images": measures.against_the_number_of_images,
    "compilations": measures.compilations,
    "cost": cost.cost_model,
    "checkpoint": measures.checkpoint,
    "paper": measures.paper_scale,
    "processes": processes.all_processes,
    "blackjax": measures.against_blackjax,
    "obvious": measures.against_the_obvious,
}


class Demand(NamedTuple):
    """What a figure should be: at least `low`, at most `high`."""

    what: str
    key: str
    low: float | None = None
    high: float | None = None

    def met(self, value: float) -> bool:
        """Whether a figure is inside the bounds."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def bounds(self) -> str:
        """The bounds in words."""
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        return f"at least {self.low:g}" if self.low is not None else f"at most {self.high:g}"


DEMANDS = (
    Demand("HMC iteration, J=10, M=500, LeNet-5: obvious / ours", "obvious_over_ours_hmc", low=7),
    Demand("LD iteration, J=10, M=10,000, LeNet-5: obvious / ours", "obvious_over_ours_ld_full", low=13),
    *(
        Demand(f"share of the matrix product, {network}, J={j}", f"matmul_share.{network}.{j}", low=0.45)
        for network in ("lenet5", "fashion_cnn")
        for j in (10, 100)
    ),
    Demand("time an image, M=60,000 / M=5,000", "per_image_60000_over_5000", low=0.95, high=1.05),
    Demand("full-batch LD iteration / gradient sweep", "ld_full_over_sweep", high=1.05),
    Demand("peak memory, M=60,000 / M=500", "memory_60000_over_500", high=1.1),
    Demand("compilations of the step in a run", "compilations", low=1, high=1),
    Demand("warm start to first iteration, s", "warm_start_s", high=4),
    Demand("two single-threaded runs at once / one", "two_runs_over_one", low=1.8),
    Demand("checkpoint / 300 s between two, laptop scale", "checkpoint_share.laptop", high=0.01),
    Demand("BlackJAX partial posteriors, 500 of 10,000 / ours", "blackjax_over_ours", low=15),
    *(
        Demand(f"full_batch / {scheme}, {kernel}: of counted", f"paper_scale.{scheme}.{kernel}.share", low)
        for scheme, low in (("constant_to_refine", 0.9), ("constant", 0.75))
        for kernel in ("ld", "hmc")
    ),
)


def bench(names: Iterable[str] | None = None, quick: bool = False, out: Path | None = None) -> Figures:
    """Take the measures, show them as a table and write them to `out` as JSON.

    The file is written after each measure, and keeps what it holds of others.
    """
    chosen = list(names or MEASURES)
    for name in chosen:
        if name not in MEASURES:
            raise BadInput(f"measure {name!r} is unknown: choose from {', '.join(MEASURES)}")
    console = Console(stderr=True)
    figures: Figures = {"quick": quick, "machine": platform.machine(), "python": platform.python_version()}
    if out is not None and out.exists():
        try:
            before = dict(json.loads(out.read_text()))
        except (ValueError, TypeError) as error:
            raise BadInput(f"{out} holds something else than figures: choose another file") from error
        figures = before | figures if before.get("quick") == quick else figures
    for name in chosen:
        console.print(f"measuring {name} ...", highlight=False)
        figures |= MEASURES[name](QUICK if quick else PUBLISHED)
        if out is not None:
            write_text(out, json.dumps(figures, indent=2) + "\n")
    Console().print(table(figures))
    if quick:
        console.print("--quick: the sizes are too small for these figures to mean anything", highlight=False)
    return figures


def table(figures: Figures) -> Table:
    """What was asked for beside what was found."""
    rows = Table("measure", "found", "asked for", "")
    for demand in DEMANDS:
        value = look_up(figures, demand.key)
        if value is None:
            rows.add_row(demand.what, "not measured", demand.bounds(), "")
        else:
            verdict = "met" if demand.met(value) else "MISSED"
            rows.add_row(demand.what, f"{value:.3g}", demand.bounds(), verdict)
    return rows


def look_up(figures: Figures, key: str) -> float | None:
    """A figure by its dotted key; keys may themselves hold dots (``constant.ld``)."""
    if key in figures:
        return figures[key]
    for name, inner in figures.items():
        if isinstance(inner, dict) and key.startswith(f"{name}."):
            return look_up(inner, key.removeprefix(f"{name}."))
    return None
