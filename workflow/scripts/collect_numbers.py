r"""Every number that the text of the paper mentions, as ``\smcdadef{key}{text}``.

Keys begin with `settings` (this build), `network`, `published/settings`, `published` (cells of the published
table), `published/clock` (what follows from its seconds) or `reference` (the data in paper/reference). Cells
are named ``<dataset>/<scheme>/<kernel>/<metric>[_std]``.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from compare_published import LEAST, PASS, check_cell
from lib.labels import SCORES, escape
from lib.latex import grouped, inline_math, macros, setting
from lib.reference import PRIOR_SCALE, PRIORS, mean_scores, read_reference, select_study
from lib.script import run_script
from lib.tables import Cells, axis, number, printed, published_speedup, read_cells

Numbers = dict[str, str]


def setting_numbers(settings: dict[str, Any]) -> Numbers:
    """Settings of a study, and the rate of gradient descent on the mean loss that one move amounts to.

    To leading order that is (S h)^2 N / 2.
    """
    numbers = {name: setting(value) for name, value in settings.items()}
    h, n_data, steps = (settings[name] for name in ("step_size", "n_train", "leapfrog_steps"))
    rates = {"rate_ld": h**2 * n_data / 2, "rate_hmc": (steps * h) ** 2 * n_data / 2}
    return numbers | {name: f"{rate:.3g}" for name, rate in rates.items()}


def build_settings(settings: dict[str, Any], runs: pd.DataFrame, steps: int) -> dict[str, Any]:
    """Settings of this build, with what is counted or left to a default (`steps` of HMC: as published)."""
    derived = {f"n_{name}": len(settings[name]) for name in ("datasets", "schemes", "kernels", "seeds")}
    derived |= {name: int(runs[name].iloc[0]) for name in ("n_train", "n_test")}
    derived["n_runs"] = len(runs)
    derived["initial_batch"] = settings["initial_batch"] or settings["batch_size"]
    derived["leapfrog_steps"] = settings["leapfrog_steps"] or steps
    fan_in = settings["prior_scale"] in (None, "fan_in")
    prior = "variance one over fan-in in each layer" if fan_in else "standard deviation {prior_scale:g}"
    return settings | derived | {"prior": prior.format(**settings)}


def cell_numbers(cells: Cells, metrics: tuple[str, ...]) -> Numbers:
    """Mean and std of each cell."""
    numbers = {}
    for key in cells:
        for metric in metrics:
            for part, suffix in (("mean", ""), ("std", "_std")):
                text = inline_math(printed(cells, key, metric, part))
                numbers["/".join((*key, metric)) + suffix] = text
    return numbers


def clock_numbers(published: Cells, settings: dict[str, Any]) -> Numbers:
    """What the published seconds say: ratios, and the iteration at which the linear ramp is full."""
    k, n, c, s = (settings[name] for name in ("iterations", "n_train", "initial_batch", "leapfrog_steps"))
    numbers = {}
    for scheme in axis(published, 1):
        ratios = [published_speedup(published, key) for key in published if key[1] == scheme]
        numbers[f"speedup/{scheme}"] = extremes(ratios, 1)
    seconds = {key: number(published, key, "runtime_s_mean") or float("nan") for key in published}
    ratios, full_at = [], []
    for dataset, kernel in axis(published, 0, 2):
        low, ramp, high = (seconds[dataset, name, kernel] for name in ("constant", "linear", "full_batch"))
        # With time a + b M and a ramp from C to N over r of K iterations, linear's time lies at the share
        # 1 - r / 2K of the way from constant's to full batch's.
        full_at.append(2 * k * (1 - (ramp - low) / (high - low)))
        if kernel == "hmc":
            ratios.append(high / seconds[dataset, "full_batch", "ld"])
    numbers["hmc_over_ld"] = extremes(ratios, 2)
    numbers["linear_full_at"] = extremes(full_at, 0)
    numbers["linear_full_at/formula"] = grouped(-(-(n - c) // settings["batch_size"]))
    # A fresh minibatch costs S + 1 evaluations of C images, full batch S of N.
    numbers["work/ld"] = grouped(n // (2 * c))
    numbers["work/hmc"] = grouped(s * n // ((s + 1) * c))
    numbers["work/uncached"] = grouped(n // c)
    return numbers


def extremes(values: list[float | None], decimals: int) -> str:
    """The smallest and the largest value."""
    known = [value for value in values if value is not None]
    return f"{min(known):.{decimals}f} to {max(known):.{decimals}f}"


def reference_numbers(runs: pd.DataFrame, published: Cells) -> Numbers:
    """How the reference data were made, their cells, and what the prior was chosen by."""
    studies = {prior: select_study(runs, prior) for prior in PRIORS}
    cells = {prior: mean_scores(study) for prior, study in studies.items()}
    main = studies[PRIOR_SCALE]
    numbers = {
        "settings/n_runs": grouped(len(main)),
        "settings/n_all_runs": grouped(len(runs)),
    }
    for network, n_parameters in runs.groupby("network")["n_parameters"].first().items():
        numbers[f"network/{network}/parameters"] = grouped(n_parameters)
    for name in ("particles", "seed", "n_train", "machine"):
        values = sorted(set(main[name]))
        numbers[f"settings/{name}"] = ", ".join(
            escape(v) if name == "machine" else grouped(v) for v in values
        )
    numbers["prior_scale"] = PRIOR_SCALE
    both = [key for key in published if all(key in cells[prior] for prior in PRIORS)]
    for name, prior, keys in (("main", PRIOR_SCALE, cells[PRIOR_SCALE]), *((p, p, both) for p in PRIORS)):
        checks = [check_cell(cells[prior], published, key, score) for key in keys for score in SCORES]
        numbers[f"within/{name}"] = str(sum(check.outcome == PASS for check in checks))
        numbers[f"within/{name}/of"] = str(len(checks))
    numbers |= cell_numbers(cells[PRIOR_SCALE], SCORES)
    numbers |= {f"fan_in/{key}": text for key, text in cell_numbers(cells["fan_in"], SCORES).items()}
    limit = float((4 / (main["step_size"] ** 2 * main["n_train"])).iloc[0])
    return numbers | {"limit": f"{limit:.1f}", "limit_3h": f"{limit / 9:.1f}"}


def tolerance_numbers() -> Numbers:
    """Differences that never fail a cell."""
    return {f"tolerance/{dataset}/{score}": f"{least:g}" for (score, dataset), least in LEAST.items()}


def main(job: Any) -> None:
    """Write the macros."""
    published, runs = read_cells(job.input.published), pd.read_csv(job.input.runs)
    published_settings = yaml.safe_load(Path(job.input.published_settings).read_text())
    steps = published_settings["leapfrog_steps"]
    parts = {
        "settings": setting_numbers(build_settings(dict(job.params.settings), runs, steps)),
        "published/settings": setting_numbers(published_settings),
        "published": cell_numbers(published, (*SCORES, "runtime_s")),
        "published/clock": clock_numbers(published, published_settings),
        "reference": reference_numbers(read_reference(job.input.reference), published) | tolerance_numbers(),
    }
    numbers = {f"{part}/{key}": text for part, keys in parts.items() for key, text in keys.items()}
    Path(job.output.tex).write_text(macros(numbers))


run_script(main, globals())
