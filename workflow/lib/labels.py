"""How schemes, kernels, datasets and metrics are named and drawn: one table for figures, tables and text.

`label` never fails: what is not in the table gets a readable name, and a scheme also a look of its own. The
six colours differ in lightness as well as in hue, and every scheme has a marker and a dash pattern of its
own, so that figures can be read in grey and by colour-blind readers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def escape(text: Any) -> str:
    """Make any text safe to typeset in LaTeX."""
    return "".join(_LATEX.get(character, character) for character in str(text))


@dataclass(frozen=True)
class Label:
    """What an identifier is called and how it is drawn (schemes, kernels) or rounded and ranked (metrics)."""

    name: str
    short: str = ""  # where space is scarce; the name by default
    colour: str = "#555555"
    marker: str = "o"
    dashes: Any = "-"
    decimals: int = 3
    better: Literal["higher", "lower"] | None = None

    @property
    def title(self) -> str:
        """The name as it begins a legend entry or a heading."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def latex(self) -> str:
        """The name, safe to typeset."""
        return escape(self.name)

    @property
    def latex_title(self) -> str:
        """The short name as it begins a row or column of a table, safe to typeset."""
        short = self.short or self.name
        return escape(short[:1].upper() + short[1:])

    def line(self) -> dict[str, Any]:
        """Keywords of a matplotlib line."""
        return {"color": self.colour, "linestyle": self.dashes, "label": self.title}


SCHEMES = {
    "constant": Label("constant", "", "#3B2C8F", "s", (0, (1, 1))),
    "full_batch": Label("full batch", "", "#000000", "o", "-"),
    "constant_to_refine": Label("constant-to-refine", "", "#B5274B", "^", (0, (5, 1.2, 1, 1.2))),
    "linear": Label("linear", "", "#117F74", "D", (0, (5, 1.5))),
    "automated": Label("automated", "", "#6DC3F0", "v", (0, (3, 1, 1, 1, 1, 1))),
    "smooth_data_annealing": Label("smooth data annealing", "SDA", "#E07B00", "P", "-"),
}
KERNELS = {
    "ld": Label("LD", colour="#E07B00"),
    "hmc": Label("HMC", colour="#3B2C8F", dashes=(0, (4, 1.2))),
}
DATASETS = {"mnist": Label("MNIST"), "fashion_mnist": Label("FashionMNIST"), "kmnist": Label("KMNIST")}
METRICS = {
    "test_accuracy": Label("test accuracy (%)", decimals=2, better="higher"),
    "test_log_likelihood": Label("test log-likelihood", better="higher"),
    "test_rmse": Label("test RMSE", better="lower"),
    "test_coverage_90": Label("coverage of 90 % intervals (%)", decimals=1),
    "particle_accuracy": Label("mean accuracy of the particles (%)", decimals=2, better="higher"),
    "ece": Label("expected calibration error", "ECE", better="lower"),
    "brier": Label("Brier score", better="lower"),
    "predictive_entropy": Label("predictive entropy"),
    "disagreement": Label("disagreement"),
    "runtime_s": Label("run time (s)", decimals=2, better="lower"),
    "compile_s": Label("compilation time (s)", decimals=2, better="lower"),
    "evaluation_s": Label("evaluation time (s)", decimals=2, better="lower"),
    "gradient_evaluations": Label("gradient evaluations", decimals=0, better="lower"),
    "speedup_seconds": Label("speed-up (seconds)", decimals=2, better="higher"),
    "speedup_gradients": Label("speed-up (gradients)", decimals=2, better="higher"),
}
SCORES = ("test_accuracy", "test_log_likelihood")
"""The scores of the published study."""

HEADLINES = ("test_accuracy", "test_rmse")
"""What a run is judged by first, where it has it: classes, or numbers."""

LABELS = SCHEMES | KERNELS | DATASETS | METRICS
FALLBACK_LOOKS = (
    ("#8C6D31", "X", (0, (4, 1, 1, 1, 1, 1, 1, 1))),
    ("#D55E9A", "<", (0, (2, 1))),
    ("#5F8B1F", ">", (0, (6, 2))),
    ("#7F7F7F", "h", (0, (1, 2))),
    ("#0B4F8A", "p", (0, (8, 1.5, 2, 1.5))),
)


def label(identifier: str) -> Label:
    """Give the label of a scheme, kernel, dataset or metric; unknown ones are named by their identifier."""
    return LABELS.get(identifier) or Label(str(identifier).replace("_", " "))


def scores_of(metrics: Iterable[str]) -> list[str]:
    """The scores among the metrics of a dataset: what figures and tables show, the headline first.

    A likelihood of the user's own may have another headline; any has a log-likelihood.
    """
    tests = sorted(name for name in set(metrics) if name.startswith("test_"))
    others = [name for name in tests if name != "test_log_likelihood"]
    headline = [name for name in HEADLINES if name in others] or others
    return headline[:1] + ["test_log_likelihood"] * ("test_log_likelihood" in tests)


def scheme_labels(names: Iterable[str]) -> dict[str, Label]:
    """Labels of the schemes of a figure, in order: those of the table first, then unknown ones by name.

    The n-th unknown scheme gets the n-th fallback look, whatever the known ones are.
    """
    looks = cycle(FALLBACK_LOOKS)
    given = ordered(names, SCHEMES)
    return {name: SCHEMES.get(name) or Label(label(name).name, "", *next(looks)) for name in given}


def ordered(names: Iterable[str], table: dict[str, Label]) -> list[str]:
    """Each name once: those of a table in its order, then the others by name."""
    given = set(names)
    return [name for name in table if name in given] + sorted(given - table.keys())
