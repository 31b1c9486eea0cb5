r"""Every number that the text of the paper mentions, as ``\smcdadef{key}{text}``.

Keys begin with `settings` (this build), `published/settings`, `published` (cells of the published table),
`published/clock` (what follows from its seconds), or `reference`, `small_data` (paper/reference). Cells are
named ``<dataset>/<scheme>/<kernel>/<metric>[_std]``.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import yaml
from lib.choice import choice
from lib.datasets import ABOUT
from lib.explanations import explanations
from lib.labels import SCORES, escape, label
from lib.latex import grouped, inline_math, setting
from lib.published import NATS, POINT, n_within
from lib.reference import MAIN, STUDIES, mean_scores, read_reference, select_study
from lib.script import run_script
from lib.small_data import read_small_data
from lib.small_tables import numbers as small_data_numbers
from lib.tables import extremes, printed, published_speedup, read_cells

from smcda.config import DEFAULT_PRIOR_SCALE, FAN_IN, HIERARCHICAL, PriorScale, SamplerConfig, gain_of

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
    usual = SamplerConfig(scheme="full_batch").described()
    settings = {name: usual.get(name) if value is None else value for name, value in settings.items()}
    derived = {f"n_{name}": len(settings[name]) for name in ("datasets", "schemes", "kernels", "seeds")}
    derived |= {name: int(runs[name].iloc[0]) for name in ("n_train", "n_test")} | {"n_runs": len(runs)}
    derived |= {"leapfrog_steps": settings["leapfrog_steps"] or steps}
    scale = DEFAULT_PRIOR_SCALE if settings["prior_scale"] is None else settings["prior_scale"]
    return settings | derived | {"prior": prior_in_words(scale)}


def prior_in_words(scale: PriorScale) -> str:
    """What the text calls a prior scale."""
    if not isinstance(scale, str):
        return f"standard deviation {scale:g}"
    if scale == FAN_IN:
        return "variance one over fan-in in each layer"
    if scale == HIERARCHICAL:
        return "a standard deviation that is learnt for each layer"
    return f"standard deviation {gain_of(scale):g} over the root of fan-in in each layer"


def own_settings(entries: dict[str, dict[str, Any]], runs: pd.DataFrame) -> str:
    """What differs from the settings of the build for single datasets: a clause for each."""
    sizes, clauses = runs.groupby("dataset", sort=False)[["n_train", "n_test"]].first(), []
    for dataset, (n_train, n_test) in zip(sizes.index, sizes.to_numpy(), strict=True):
        entry = {key: value for key, value in entries.get(dataset, {}).items() if key not in ABOUT}
        different = tuple(sizes.loc[dataset]) != tuple(sizes.iloc[0])
        parts = [f"{grouped(n_train)} training and {grouped(n_test)} test examples"] * different
        parts += [f"{label(key).latex} {setting(value)}" for key, value in entry.items()]
        clauses += [f"{label(dataset).latex}: {', '.join(parts)}"] * bool(parts)
    return "".join(f"; {clause}" for clause in clauses)


def cell_numbers(cells: pd.DataFrame) -> Numbers:
    """Mean and std of the scores of each cell."""
    return {
        "/".join((*key, score)) + suffix: inline_math(printed(cells, key, score, part))
        for key in cells.index
        for score in SCORES
        for part, suffix in (("mean", ""), ("std", "_std"))
    }


def clock_numbers(published: pd.DataFrame, settings: dict[str, Any]) -> Numbers:
    """What the published seconds say: ratios, and the iteration at which the linear ramp is full."""
    k, n, c, s = (settings[name] for name in ("iterations", "n_train", "initial_batch", "leapfrog_steps"))
    seconds = published["runtime_s_mean"].unstack("scheme")
    # With time a + b M and a ramp from C to N over r of K iterations, linear's time lies at the share
    # 1 - r / 2K of the way from constant's to full batch's.
    share = (seconds["linear"] - seconds["constant"]) / (seconds["full_batch"] - seconds["constant"])
    full = seconds["full_batch"].unstack("kernel")
    ratios = [published_speedup(published, key) for key in published.index if key[1] == "constant"]
    return {
        "speedup/constant": extremes(pd.Series(ratios), 1),
        "hmc_over_ld": extremes(full["hmc"] / full["ld"], 2),
        "linear_full_at": extremes(2 * k * (1 - share), 0),
        "linear_full_at/formula": grouped(-(-(n - c) // settings["batch_size"])),
        # A fresh minibatch costs S + 1 evaluations of C images, full batch S of N.
        "work/ld": grouped(n // (2 * c)),
        "work/hmc": grouped(s * n // ((s + 1) * c)),
        "work/uncached": grouped(n // c),
    }


def reference_numbers(runs: pd.DataFrame, published: pd.DataFrame) -> Numbers:
    """How the reference data were made, their cells, and what the prior was chosen by."""
    main = select_study(runs)
    cells = {name: mean_scores(select_study(runs, made)) for name, made in STUDIES.items()}
    numbers = {"prior_scale": MAIN.prior_scale, "settings/n_runs": grouped(len(main))}
    numbers |= {"n_cells": str(len(cells["main"])), "n_cells/of": str(len(published))}
    for network, n_parameters in runs.groupby("network")["n_parameters"].first().items():
        numbers[f"network/{network}/parameters"] = grouped(n_parameters)
    for name in ("particles", "seed", "n_train", "machine"):
        texts = map(escape if name == "machine" else grouped, sorted(set(main[name])))
        numbers[f"settings/{name}"] = ", ".join(texts)
    both = cells["main"].index.intersection(cells["fan_in"].index)
    compared = {"main": cells["main"]} | {f"both/{name}": found.loc[both] for name, found in cells.items()}
    for name, found in compared.items():
        numbers |= {f"within/{name}": str(n_within(found, published))}
        numbers |= {f"within/{name}/of": str(len(found) * len(SCORES))}
    numbers |= cell_numbers(cells["main"])
    numbers |= {f"fan_in/{key}": text for key, text in cell_numbers(cells["fan_in"]).items()}
    numbers |= {f"tolerance/{dataset}": f"{nats:g}" for dataset, nats in NATS.items()}
    limit = float((4 / (main["step_size"] ** 2 * main["n_train"])).iloc[0])
    return numbers | {"tolerance": f"{POINT:g}", "limit": f"{limit:.1f}", "limit_3h": f"{limit / 9:.1f}"}


def choice_numbers(files: Any) -> Numbers:
    """The tables of the rule and of the explanations: ``<table>/<name>/<start>/<batch norm>/<column>``."""
    records = [(f"choice/{record['weighting']}", record) for record in choice(files)]
    records += [(f"explanation/{record['explanation']}", record) for record in explanations(files)]
    return {
        f"{table}/{record['start']}/{record['batch_norm']}/{column}": escape(value)
        for table, record in records
        for column, value in record.items()
    }


def main(job: Any) -> None:
    r"""Write the macros: what ``\val{key}`` prints, one line per key."""
    published, runs = read_cells(job.input.published), pd.read_csv(job.input.runs)
    published_settings = yaml.safe_load(Path(job.input.published_settings).read_text())
    steps, given = published_settings["leapfrog_steps"], job.input
    files = SimpleNamespace(
        runs=given.reference, traces=given.traces, ablations=given.ablations, published=given.published
    )
    parts = {
        "settings": setting_numbers(build_settings(dict(job.params.settings), runs, steps))
        | {"of_datasets": own_settings(dict(job.params.entries), runs)},
        "published/settings": setting_numbers(published_settings),
        "published": cell_numbers(published),
        "published/clock": clock_numbers(published, published_settings),
        "reference": reference_numbers(read_reference(job.input.reference), published)
        | choice_numbers(files),
        "small_data": small_data_numbers(read_small_data(Path(given.small_data))),
    }
    with Path(job.output.tex).open("w") as tex:
        for part, numbers in parts.items():
            tex.writelines(f"\\smcdadef{{{part}/{key}}}{{{text}}}\n" for key, text in numbers.items())


run_script(main, globals())
