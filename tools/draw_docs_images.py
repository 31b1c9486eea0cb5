"""Draw the pictures of the documentation from what its pages compute.

python tools/draw_docs_images.py [PAGE ...]

Each page's Python runs as it stands, its picture is drawn from the names that are left, and what it printed
is written into the page as `run_pages` does, so that text and picture are of one run. Pages that are named,
such as `start`, are drawn alone.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt  # noqa: E402
from run_pages import run_blocks, with_outputs  # noqa: E402

DOCS = Path(__file__).parents[1] / "docs"
IMAGES = DOCS / "images"
STYLE = {
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.facecolor": "white",
}
Names = dict[str, Any]


def start(names: Names) -> None:
    """Draws through the data, the posterior of two parameters; and the way there."""
    time, measured, draws = names["time"], names["measured"], names["draws"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
    grid = np.linspace(0, 5, 100)
    for i in range(50):
        left.plot(
            grid, draws["amplitude"][i] * np.exp(-draws["rate"][i] * grid), color="C0", alpha=0.15, lw=1
        )
    left.plot(grid, 2.0 * np.exp(-0.7 * grid), "k--", lw=1)
    left.plot(time, measured, "o", color="C1", ms=3)
    left.set(xlabel="time", ylabel="measured")
    right.plot(draws["rate"], draws["amplitude"], ".", ms=3, alpha=0.6)
    right.plot(0.7, 2.0, "k+", ms=10)
    right.set(xlabel="rate", ylabel="amplitude")
    save(figure, "start")

    sample, config = names["sample"], names["SamplerConfig"]
    n_moves = len(names["posterior"].trace["beta"])
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.6), sharex=True, sharey=True)
    rng = np.random.default_rng(0)
    ways = [("the prior", {"rate": 2 * rng.normal(size=1000), "amplitude": 5 * rng.normal(size=1000)})]
    for title, moves in (("half way", n_moves // 2), ("the posterior", n_moves)):
        run = sample(names["log_likelihood"], names["prior"], time, measured, config(iterations=moves))
        ways.append((title, run.params))
    for axis, (title, params) in zip(axes, ways, strict=True):
        axis.plot(params["rate"], params["amplitude"], ".", ms=2, alpha=0.5)
        axis.set(title=title, xlabel="rate", xlim=(-4, 4), ylim=(-10, 10))
    axes[0].set_ylabel("amplitude")
    save(figure, "path")


def regression(names: Names) -> None:
    """The line under both models of the noise."""
    x, y = names["x"], names["y"]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
    grid = np.linspace(-1, 1, 50)
    titles = {"gaussian_noise": "Gaussian noise", "student_noise": "Student's t"}
    for axis, (name, result) in zip(axes, names["results"].items(), strict=True):
        draws = result.resample(1000).params
        lines = np.asarray(draws["intercept"])[:, None] + np.asarray(draws["slope"])[:, None] * grid
        axis.fill_between(grid, *np.quantile(lines, [0.05, 0.95], axis=0), alpha=0.4)
        axis.plot(grid, 1 + 2 * grid, "k--", lw=1)
        axis.plot(x, y, "o", color="C1", ms=3)
        axis.set(xlabel="x", title=f"{titles[name]}: log evidence {result.log_evidence:.1f}")
    axes[0].set_ylabel("y")
    save(figure, "regression")


def logistic_nuts(names: Names) -> None:
    """Every weight by both samplers."""
    figure, axis = plt.subplots(figsize=(7, 2.8))
    places = np.arange(8)
    rows = names["summary"]
    means, sds = [row["mean"] for row in rows], [2 * row["sd"] for row in rows]
    nuts = names["nuts"]
    axis.errorbar(places - 0.1, means, sds, fmt="o", ms=4, label="smcda")
    axis.errorbar(places + 0.1, nuts.mean(axis=0), 2 * nuts.std(axis=0), fmt="s", ms=4, label="NUTS")
    axis.plot(places, names["truth"], "k_", ms=22, label="truth")
    axis.set(xlabel="weight", ylabel="mean and two sd", xticks=places)
    axis.legend(loc="upper left")
    save(figure, "nuts")


def extend(names: Names) -> None:
    """Effect and surprise by month."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8))
    months, history = list(names["months"]), names["history"]
    effects = [result.summary()["effect[0]"] for result in history]
    surprises = -np.diff([result.log_evidence for result in history]) / 200
    left.errorbar(months, [row["mean"] for row in effects], [2 * row["sd"] for row in effects], fmt="o")
    left.axhline(0.4, color="grey", ls=":")
    left.set(title="effect: mean and two standard deviations")
    right.plot(months[1:], surprises, "o-", color="C1")
    right.set(title="surprise, nats per customer", xlim=(-0.5, len(months) - 1.5))
    save(figure, "extend")


def few_data_cnn(names: Names) -> None:
    """Log evidence and test log-likelihood by prior scale."""
    figure, axis = plt.subplots(figsize=(6, 3))
    names["choice"].plot(axis)
    save(figure, "few-data-cnn")


def why_weights_die(names: Names) -> None:
    """Ancestors along both runs."""
    figure, axis = plt.subplots(figsize=(6, 2.8))
    for name in ("published", "adaptive"):
        ancestors = names[name].trace["unique_ancestors"]
        axis.plot(np.linspace(0, 1, len(ancestors)), ancestors, label=f"{name} ({len(ancestors)} iterations)")
    axis.set(xlabel="share of the run", ylabel="first draws with descendants", yscale="log")
    axis.set_yticks([1, 10, 100, 200], ["1", "10", "100", "200"])
    axis.legend()
    save(figure, "weights")


def save(figure: Any, name: str) -> None:
    """Write a small PNG."""
    figure.savefig(IMAGES / f"{name}.png", metadata={"Software": None})
    plt.close(figure)


PAGES: dict[str, tuple[str, Callable[[Names], None]]] = {
    "start": ("start.md", start),
    "regression": ("tutorials/regression.md", regression),
    "logistic-nuts": ("tutorials/logistic-nuts.md", logistic_nuts),
    "extend": ("tutorials/extend.md", extend),
    "few-data-cnn": ("tutorials/few-data-cnn.md", few_data_cnn),
    "why-weights-die": ("why-weights-die.md", why_weights_die),
}


def main() -> None:
    """Draw the pictures of the pages that were named, or of all."""
    for name in sys.argv[1:] or PAGES:
        page, draw = PAGES[name]
        names: Names = {"__name__": name}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = (DOCS / page).read_text()
            ran = list(run_blocks(text, names))
            with plt.rc_context(STYLE):
                draw(names)
        (DOCS / page).write_text(with_outputs(text, ran))
        print(f"drew {name}", flush=True)


if __name__ == "__main__":
    main()
