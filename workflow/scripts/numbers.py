r"""Every number and every verdict that the text of the paper mentions, as ``\smcdadef{key}{text}``.

The text is written once and built at any scale, so it may assert nothing that a build can change. What
a build decides reaches it through these keys:

    settings/<name>                                  a setting of this build
    <dataset>/<scheme>/<kernel>/<metric>[_std]       a cell of the summary, also speedup_{seconds,gradients}
    range/..., ratio/...                             smallest and largest of several cells
    verdict/...                                      a phrase chosen by the data
    network/<name>/parameters                        D
    published/...                                    the same of the published table and settings

A key whose cell is not in the study says ``n/a``.
"""

import csv
import os
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

from cells import (
    DECIMALS,
    NOT_THERE,
    Cells,
    Key,
    best,
    escape,
    inline_math,
    name,
    number,
    printed,
    published_speedup,
    read_cells,
    render,
    rounded,
)

from smcda.files import write_text

Numbers = dict[str, str]

PUBLISHED_SETTINGS: dict[str, Any] = {
    "iterations": 200,
    "step_size": 0.002,
    "leapfrog_steps": 3,
    "batch_size": 500,
    "initial_batch": 500,
    "n_train": 60_000,
    "n_test": 10_000,
    "n_seeds": 5,
    "resampling": "multinomial",
    "refine_from": 0.9,
    "delta_entropy": 1.0,
    "beta_restart": 0.1,
}
SETTING_NAMES = {
    "iterations": "iterations",
    "step_size": "step size",
    "leapfrog_steps": "leapfrog steps of HMC",
    "batch_size": "minibatch",
    "initial_batch": "first batch",
    "n_train": "training images",
    "n_test": "test images",
    "n_seeds": "seeds",
}
OTHER_SETTINGS = ("scale", "particles", "weight_target", "seeds", "schemes", "kernels", "datasets", "device")


def every_number(
    cells: Cells, published: Cells, settings: dict[str, Any], parameters: dict[str, int]
) -> Numbers:
    """Put all keys together; the published cells are always there, so that the text can name them."""
    numbers = setting_numbers(settings)
    numbers |= {f"network/{network}/parameters": grouped(count) for network, count in parameters.items()}
    keys = list(dict.fromkeys([*published, *cells]))
    numbers |= cell_numbers(cells, keys, list(DECIMALS))
    numbers |= range_numbers(cells, keys)
    numbers |= {f"verdict/{key}": text for key, text in verdicts(cells, keys).items()}
    numbers |= {f"verdict/{key}": text for key, text in comparisons(cells, published).items()}
    numbers["verdict/settings"] = departures(settings)
    numbers["verdict/missing_runs"] = missing_runs(cells)
    theirs = {f"settings/{key}": setting_text(value) for key, value in PUBLISHED_SETTINGS.items()}
    theirs |= step_lengths(PUBLISHED_SETTINGS, "settings")
    theirs |= cell_numbers(published, list(published), ["test_log_likelihood", "test_accuracy", "runtime_s"])
    theirs |= {f"verdict/{key}": text for key, text in verdicts(published, list(published)).items()}
    theirs |= published_clocks(published)
    return numbers | {f"published/{key}": text for key, text in theirs.items()}


def setting_numbers(settings: dict[str, Any]) -> Numbers:
    """Give the build's settings, and what follows from them alone."""
    settings = complete(settings)
    numbers = {f"settings/{key}": NOT_THERE for key in (*PUBLISHED_SETTINGS, *OTHER_SETTINGS)}
    numbers |= {f"settings/{key}": setting_text(value) for key, value in settings.items()}
    return numbers | step_lengths(settings, "settings")


def complete(settings: dict[str, Any]) -> dict[str, Any]:
    """Fill in what is counted, and what is left to its default."""
    settings = dict(settings)
    if settings.get("initial_batch") is None:
        settings["initial_batch"] = settings.get("batch_size")
    if settings.get("leapfrog_steps") is None:
        settings["leapfrog_steps"] = PUBLISHED_SETTINGS["leapfrog_steps"]
    settings["n_seeds"] = len(settings["seeds"])
    settings["n_runs"] = settings["n_seeds"]
    for axis in ("datasets", "schemes", "kernels"):
        settings[f"n_{axis}"] = len(settings[axis])
        settings["n_runs"] *= len(settings[axis])
    return settings


def step_lengths(settings: dict[str, Any], prefix: str) -> Numbers:
    """Give the rate of the gradient descent on the mean loss that one move amounts to: (S h)^2 N / 2."""
    h, n_data, sweeps = (settings.get(key) for key in ("step_size", "n_train", "leapfrog_steps"))
    known = h is not None and n_data is not None
    return {
        f"{prefix}/rate_ld": f"{h**2 * n_data / 2:.3g}" if known else NOT_THERE,
        f"{prefix}/rate_hmc": f"{(sweeps * h) ** 2 * n_data / 2:.3g}" if known and sweeps else NOT_THERE,
    }


def cell_numbers(cells: Cells, keys: list[Key], metrics: list[str]) -> Numbers:
    """Give mean and std of each cell, and its speed-ups."""
    numbers = {}
    for key, metric in product(keys, metrics):
        label = "/".join([*key, metric])
        if metric.startswith("speedup"):
            numbers[label] = inline_math(rounded(number(cells, key, metric), DECIMALS[metric]))
            continue
        for part, suffix in (("mean", ""), ("std", "_std")):
            value = number(cells, key, f"{metric}_{part}")
            numbers[label + suffix] = metric_text(metric, value)
    return numbers


def range_numbers(cells: Cells, keys: list[Key]) -> Numbers:
    """Say from where to where cells lie: by dataset, by scheme's speed-up, and HMC's cost over LD's."""
    numbers = {}
    for dataset, metric in product(dict.fromkeys(key[0] for key in keys), DECIMALS):
        column = metric if metric.startswith("speedup") else f"{metric}_mean"
        values = [number(cells, key, column) for key in keys if key[0] == dataset]
        numbers[f"range/{dataset}/{metric}"] = span(values, lambda value, m=metric: metric_text(m, value))
    for scheme, metric in product(
        dict.fromkeys(key[1] for key in keys), ("speedup_seconds", "speedup_gradients")
    ):
        values = [number(cells, key, metric) for key in keys if key[1] == scheme]
        numbers[f"range/{scheme}/{metric}"] = span(values, lambda value: rounded(value, 1))
    for metric in ("runtime_s", "gradient_evaluations"):
        numbers[f"ratio/hmc_over_ld/{metric}"] = span(
            hmc_over_ld(cells, keys, metric), lambda value: rounded(value, 2)
        )
    return numbers


def hmc_over_ld(cells: Cells, keys: list[Key], metric: str) -> list[float]:
    """Divide HMC's mean by LD's wherever both are there."""
    return [hmc / ld for ld, hmc in _pairs(cells, keys, f"{metric}_mean") if ld]


def verdicts(cells: Cells, keys: list[Key]) -> Numbers:
    """Look at the original's findings in any table of cells, the published one or a build's own."""
    numbers = {}
    for metric in ("test_accuracy", "test_log_likelihood"):
        pairs = _pairs(cells, keys, f"{metric}_mean")
        wins = sum(hmc > ld for ld, hmc in pairs)
        numbers[f"hmc_above_ld/{metric}"] = share(wins, len(pairs), "pairs of scheme and dataset")
        for scheme in dict.fromkeys(key[1] for key in keys):
            numbers[f"highest/{scheme}/{metric}"] = how_often_best(cells, keys, scheme, metric)
        for rival in ("automated", "smooth_data_annealing"):
            numbers[f"linear_above/{rival}/{metric}"] = how_often_above(cells, keys, "linear", rival, metric)
    for dataset in dict.fromkeys(key[0] for key in keys):
        for metric in ("test_accuracy", "test_log_likelihood", "ece", "runtime_s", "gradient_evaluations"):
            numbers[f"best/{dataset}/{metric}"] = best_of(cells, keys, dataset, metric)
    for dataset, scheme, kernel in keys:
        numbers[f"against_full/{dataset}/{scheme}/{kernel}"] = against_full(cells, (dataset, scheme, kernel))
    return numbers


def how_often_best(cells: Cells, keys: list[Key], scheme: str, metric: str) -> str:
    """Count the dataset-kernel pairs in which no scheme has a better mean, at the printed digits."""
    groups = [
        [key for key in keys if (key[0], key[2]) == group]
        for group in dict.fromkeys((key[0], key[2]) for key in keys)
    ]
    there = [
        group for group in groups if any(key[1] == scheme and printed(cells, key, metric) for key in group)
    ]
    wins = sum(any(key[1] == scheme for key in best(cells, group, metric)) for group in there)
    return share(wins, len(there), "pairs of dataset and kernel")


def how_often_above(cells: Cells, keys: list[Key], scheme: str, rival: str, metric: str) -> str:
    """Count the dataset-kernel pairs in which one scheme's mean is above another's."""
    column = f"{metric}_mean"
    values = [
        (number(cells, (dataset, scheme, kernel), column), number(cells, (dataset, rival, kernel), column))
        for dataset, kernel in dict.fromkeys((key[0], key[2]) for key in keys)
    ]
    there = [(own, other) for own, other in values if own is not None and other is not None]
    return share(sum(own > other for own, other in there), len(there), "pairs of dataset and kernel")


def best_of(cells: Cells, keys: list[Key], dataset: str, metric: str) -> str:
    """Name the best cell of a dataset, or all that tie at the printed digits."""
    winners = best(cells, [key for key in keys if key[0] == dataset], metric)
    if not winners:
        return NOT_THERE
    who = listed([f"{name(scheme)} with {name(kernel)}" for _, scheme, kernel in winners])
    unit = {"test_accuracy": r"\,\%", "runtime_s": r"\,s"}.get(metric, "")
    return f"{who} ({metric_text(metric, number(cells, winners[0], f'{metric}_mean'))}{unit})"


def against_full(cells: Cells, key: Key) -> str:
    """Say how far a cell's accuracy is from full batch's with the same kernel, and at what cost."""
    dataset, _, kernel = key
    own = number(cells, key, "test_accuracy_mean")
    full = number(cells, (dataset, "full_batch", kernel), "test_accuracy_mean")
    if own is None or full is None:
        return NOT_THERE
    distance = rounded(abs(own - full), DECIMALS["test_accuracy"])
    if not float(distance):
        return "level with full batch"
    return f"{distance} percentage points {'above' if own > full else 'below'} full batch"


def comparisons(cells: Cells, published: Cells) -> Numbers:
    """Count the cells that lie within two published standard deviations of the published mean."""
    numbers = {}
    for metric in ("test_accuracy", "test_log_likelihood"):
        distances = []
        for key in published:
            ours, theirs, spread = (
                number(cells, key, f"{metric}_mean"),
                number(published, key, f"{metric}_mean"),
                number(published, key, f"{metric}_std"),
            )
            if ours is not None and theirs is not None and spread:
                distances.append(abs(ours - theirs) / spread)
        within = sum(distance <= 2 for distance in distances)
        numbers[f"within_two_published_stds/{metric}"] = share(within, len(distances), "cells")
    return numbers


def published_clocks(published: Cells) -> Numbers:
    """Read off the published clocks what they can tell: ratios, and where the linear ramp is full."""
    k, n, c, s = (
        PUBLISHED_SETTINGS[key] for key in ("iterations", "n_train", "initial_batch", "leapfrog_steps")
    )
    keys = list(published)
    numbers = {
        f"speedup/{'/'.join(key)}": inline_math(rounded(published_speedup(published, key), 2)) for key in keys
    }
    for scheme in dict.fromkeys(key[1] for key in keys):
        values = [published_speedup(published, key) for key in keys if key[1] == scheme]
        numbers[f"range/{scheme}/speedup_seconds"] = span(values, lambda value: rounded(value, 1))
    of_full = hmc_over_ld(published, [key for key in keys if key[1] == "full_batch"], "runtime_s")
    numbers["ratio/hmc_over_ld/full_batch"] = span(of_full, lambda value: rounded(value, 2))
    # A fresh minibatch costs S + 1 sweeps over C images, full batch S over N.
    numbers["work/full_over_constant/ld"] = grouped(n // (2 * c))
    numbers["work/full_over_constant/hmc"] = grouped(s * n // ((s + 1) * c))
    numbers["work/full_over_constant/uncached"] = grouped(n // c)
    # Time a + b M with a ramp from C to N over r of K iterations: the share of the way from constant's
    # time to full batch's is 1 - r / 2K.
    full_at = []
    for dataset, kernel in dict.fromkeys((key[0], key[2]) for key in keys):
        low, ramp, high = (
            number(published, (dataset, scheme, kernel), "runtime_s_mean")
            for scheme in ("constant", "linear", "full_batch")
        )
        if low is not None and ramp is not None and high is not None:
            full_at.append(2 * k * (1 - (ramp - low) / (high - low)))
    numbers["linear_full_at/clock"] = span(full_at, lambda value: rounded(value, 0))
    numbers["linear_full_at/formula"] = grouped(-(-(n - c) // PUBLISHED_SETTINGS["batch_size"]))
    return numbers


def departures(settings: dict[str, Any]) -> str:
    """List the settings that are not the published ones, as the end of a sentence."""
    settings = complete(settings)
    found = [
        f"{SETTING_NAMES.get(key, name(key))} ({setting_text(settings[key])}, not {setting_text(value)})"
        for key, value in PUBLISHED_SETTINGS.items()
        if settings.get(key) is not None and settings[key] != value
    ]
    if not found:
        return "every setting that was published is kept"
    return f"these settings are not the published ones: {listed(found)}"


def missing_runs(cells: Cells) -> str:
    """Say which seeds are missing, as a sentence."""
    found = [
        f"{name(dataset)}, {name(scheme)}, {name(kernel)}: seed {escape(row['missing_seeds'])}"
        for (dataset, scheme, kernel), row in cells.items()
        if row.get("missing_seeds")
    ]
    return f"Runs are missing ({'; '.join(found)})." if found else "No run is missing."


def share(count: int, total: int, what: str) -> str:
    """Phrase how often something holds: 'in all 12 pairs', 'in 9 of the 12 pairs'."""
    if not total:
        return f"in none of the {what}, because none can be compared"
    if count == total:
        return f"in all {total} {what}" if total > 1 else "in the one case there is"
    return f"in {count if count else 'none'} of the {total} {what}"


def span(values: Iterable[float | None], text: Callable[[float], str]) -> str:
    """Phrase a range; one number where the ends print the same."""
    known = [value for value in values if value is not None]
    if not known:
        return NOT_THERE
    low, high = text(min(known)), text(max(known))
    return low if low == high else f"{low} to {high}"


def metric_text(metric: str, value: float | None) -> str:
    """Print a metric in the text; counts of gradient evaluations in powers of ten."""
    if metric == "gradient_evaluations":
        return grouped(value)
    return inline_math(rounded(value, DECIMALS[metric]))


def grouped(value: float | None) -> str:
    """Print a whole number with thin spaces between thousands, or as a power of ten from a million on."""
    if value is None:
        return NOT_THERE
    if abs(value) >= 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"\\ensuremath{{{mantissa}\\times 10^{{{int(exponent)}}}}}"
    return f"{value:,.0f}".replace(",", "\\,")


def setting_text(value: Any) -> str:
    """Print a setting: numbers as numbers, names readable, lists with commas."""
    if value is None:
        return NOT_THERE
    if isinstance(value, (list, tuple)):
        return ", ".join(setting_text(item) for item in value) or NOT_THERE
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return grouped(value)
    return f"{value:g}" if isinstance(value, float) else name(str(value))


def listed(items: list[str]) -> str:
    """Join as a sentence does."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def count_network_parameters() -> dict[str, int]:
    """Count the weights of each network; on the CPU, because a GPU would be taken for nothing."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from smcda.networks import NETWORKS, count_parameters

    return {network: count_parameters(make()) for network, make in NETWORKS.items()}


def image_counts(runs: Path) -> dict[str, int]:
    """How many images the runs were given, which the config may leave to the data."""
    with runs.open(newline="") as file:
        first = next(csv.DictReader(file))
    return {name: int(first[name]) for name in ("n_train", "n_test")}


def _has(cells: Cells, keys: list[Key], scheme: str, metric: str) -> bool:
    return any(key[1] == scheme and printed(cells, key, metric) for key in keys)


def _pairs(cells: Cells, keys: list[Key], column: str) -> list[tuple[float, float]]:
    """Give LD's and HMC's value wherever both are there."""
    pairs = []
    for dataset, scheme in dict.fromkeys(key[:2] for key in keys):
        ld, hmc = (number(cells, (dataset, scheme, kernel), column) for kernel in ("ld", "hmc"))
        if ld is not None and hmc is not None:
            pairs.append((ld, hmc))
    return pairs


def main(job: Any) -> None:
    """Write the macros."""
    cells, published = read_cells(job.input.summary), read_cells(job.input.published)
    settings = dict(job.params.settings) | image_counts(Path(job.input.runs))
    numbers = every_number(cells, published, settings, count_network_parameters())
    write_text(Path(job.output.tex), render(job.input.template, numbers=list(numbers.items())))


if "snakemake" in globals():
    main(globals()["snakemake"])
