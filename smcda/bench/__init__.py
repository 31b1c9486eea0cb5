"""How fast the package is: ratios, measured interleaved in one process, the best of several.

Each measure stands for something that an implementation gets wrong easily: recomputing what is known,
recompiling, cost or memory that grows faster than the work, a start that takes longer than the run. The
table says what was found and the threshold; a figure that falls short is shown as falling short.
"""

import json
import platform
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from smcda._io import write_text
from smcda.bench import adaptive, roofline, subprocesses, suite
from smcda.bench.timing import PUBLISHED, QUICK, Sizes
from smcda.errors import BadInput

Figures = dict[str, Any]

MEASURES: dict[str, Callable[[Sizes], Figures]] = {
    "matmul": suite.share_of_matrix_product,
    "images": suite.time_per_image,
    "compilations": suite.compilations,
    "cost": roofline.cost_model,
    "checkpoint": suite.checkpoint,
    "paper": suite.paper_scale,
    "processes": subprocesses.all_processes,
    "blackjax": suite.blackjax_over_ours,
    "adaptive": adaptive.cost_of_adaptive,
    "baseline": suite.speedup_over_baseline,
}


class Threshold(NamedTuple):
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


THRESHOLDS = (
    Threshold("HMC iteration, J=10, M=500, LeNet-5: baseline / ours", "baseline_over_ours_hmc", low=7),
    Threshold("LD iteration, J=10, M=10,000, LeNet-5: baseline / ours", "baseline_over_ours_ld_full", low=13),
    *(
        Threshold(f"share of the matrix product, {network}, J={j}", f"matmul_share.{network}.{j}", low=0.45)
        for network in ("lenet5", "fashion_cnn")
        for j in (10, 100)
    ),
    Threshold("time per image, M=60,000 / M=5,000", "per_image_60000_over_5000", low=0.95, high=1.05),
    Threshold("full-batch LD iteration / gradient", "ld_full_over_gradient", high=1.05),
    Threshold("peak memory, M=60,000 / M=500", "memory_60000_over_500", high=1.1),
    Threshold("compilations of the step in a run", "compilations", low=1, high=1),
    Threshold("warm start to first iteration, s", "warm_start_s", high=4),
    Threshold("two single-threaded runs at once / one", "two_runs_over_one", low=1.8),
    Threshold("checkpoint / 300 s between two, laptop scale", "checkpoint_share.laptop", high=0.01),
    Threshold("BlackJAX partial posteriors, 500 of 10,000 / ours", "blackjax_over_ours", low=15),
    *(
        Threshold(f"full_batch / {scheme}, {kernel}: of counted", f"paper_scale.{scheme}.{kernel}.share", low)
        for scheme, low in (("constant_to_refine", 0.9), ("constant", 0.75))
        for kernel in ("ld", "hmc")
    ),
    Threshold("evaluations, N=20,000: adaptive / tempering", "adaptive_over_tempering.20000", high=0.5),
    Threshold(
        "evaluations, equal error, N=100,000: BlackJAX tempered SMC / adaptive",
        "blackjax_smc_over_adaptive.100000",
        low=3,
    ),
)


def bench(names: Iterable[str] | None = None, quick: bool = False, out: Path | None = None) -> Figures:
    """Take the measures, show them as a table and write them to `out` as JSON.

    Each measure's figures are printed when they are known. The file is written after each measure, and keeps
    what it holds of others.
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
        found = MEASURES[name](QUICK if quick else PUBLISHED)
        figures |= found
        for key, value in leaves(found):
            console.print(f"  {key} {value:.4g}" if isinstance(value, float) else f"  {key} {value}")
        if out is not None:
            write_text(out, json.dumps(figures, indent=2) + "\n")
    Console().print(table(figures))
    if quick:
        console.print("--quick: the sizes are too small for these figures to mean anything", highlight=False)
    return figures


def leaves(figures: Figures, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every figure with its dotted key."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def table(figures: Figures) -> Table:
    """Thresholds beside what was found."""
    rows = Table("measure", "found", "threshold", "")
    for threshold in THRESHOLDS:
        value = look_up(figures, threshold.key)
        if value is None:
            rows.add_row(threshold.what, "not measured", threshold.bounds(), "")
        else:
            verdict = "met" if threshold.met(value) else "MISSED"
            rows.add_row(threshold.what, f"{value:.3g}", threshold.bounds(), verdict)
    return rows


def look_up(figures: Figures, key: str) -> float | None:
    """A figure by its dotted key; keys may themselves hold dots (``constant.ld``)."""
    if key in figures:
        return figures[key]
    for name, inner in figures.items():
        if isinstance(inner, dict) and key.startswith(f"{name}."):
            return look_up(inner, key.removeprefix(f"{name}."))
    return None
