r"""Every number and every verdict that the text of the paper mentions, as ``\smcdadef{key}{text}``.

The text is written once and built at any scale, so it may assert nothing that a build can change. What
a build decides reaches it through these keys:

    settings/<name>                                  a setting of this build
    <dataset>/<scheme>/<kernel>/<metric>[_std]       a cell of the summary, also speedup_{seconds,gradients}
    range/..., ratio/...                             smallest and largest of several cells
    verdict/...                                      a phrase chosen by the data
    network/<name>/parameters                        D
    published/...                                    the same of the published table and settings
    measured/...                                     the study at full data (measured_numbers.py)

A key whose cell is not in the study says ``n/a``.
"""

import csv
import os
from itertools import product
from pathlib import Path
from typing import Any

from cells import (
    DECIMALS,
    NOT_THERE,
    Cells,
    Key,
    inline_math,
    name,
    number,
    published_speedup,
    read_cells,
    render,
    rounded,
)
from measured_numbers import measured_numbers
from phrases import grouped, listed, metric_text, setting_text, span
from verdicts import Numbers, cell_numbers, comparisons, hmc_over_ld, missing_runs, verdicts

from smcda._io import write_text

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
OTHER_SETTINGS = (
    "scale",
    "particles",
    "batch_norm",
    "weight_target",
    "seeds",
    "schemes",
    "kernels",
    "datasets",
    "device",
)


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
    numbers["settings/prior"] = prior_text(settings.get("prior_scale"))
    return numbers | step_lengths(settings, "settings")


def prior_text(scale: float | None) -> str:
    """Say how wide the prior is."""
    if scale is None:
        return "variance $1/\\text{fan-in}$ in each layer, biases included"
    return f"standard deviation {scale:g} for every weight and bias"


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


def count_network_parameters() -> dict[str, int]:
    """Count the weights of each network; on the CPU, because a GPU would be taken for nothing."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from smcda.models.lenet import NETWORKS, count_parameters

    return {network: count_parameters(make()) for network, make in NETWORKS.items()}


def image_counts(runs: Path) -> dict[str, int]:
    """How many images the runs were given, which the config may leave to the data."""
    with runs.open(newline="") as file:
        first = next(csv.DictReader(file))
    return {name: int(first[name]) for name in ("n_train", "n_test")}


def main(job: Any) -> None:
    """Write the macros."""
    cells, published = read_cells(job.input.summary), read_cells(job.input.published)
    settings = dict(job.params.settings) | image_counts(Path(job.input.runs))
    numbers = every_number(cells, published, settings, count_network_parameters())
    if job.input.get("measured_runs"):
        made = (Path(job.input.measured_runs), Path(job.input.measured_summary))
        optional = ("traces", "decisions", "curvature", "fan_in_prior", "fan_in_curvature")
        more = {name: job.input.get(name) for name in optional}
        more = {name: Path(file) for name, file in more.items() if file}
        numbers |= measured_numbers(*made, published, **more)
    write_text(Path(job.output.tex), render(job.input.template, numbers=list(numbers.items())))


if "snakemake" in globals():
    main(globals()["snakemake"])
