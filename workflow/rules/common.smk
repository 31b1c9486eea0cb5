"""Shared by all rules: the checked config, paths, and what a script is made of.

Paths are relative to the project's folder, so that a build that was moved is still up to date. Sources of the
workflow are inputs: Snakemake compares inputs by date first and then by checksum, so that touching a script
rebuilds nothing and changing it does. Its trigger `code` would look at a script's date only, and is left out
(profiles/).
"""

import json
import re
import shutil
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

# Scripts inherit this path, and find `lib` by it.
sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from lib.captions import TEMPLATES, caption_of, title_of
from lib.config import ConfigError
from lib.datasets import NETWORKS
from lib.resources import request, sampling_cost
from lib.script import WORKFLOW, prefer_own_commands, sources
from lib.small_config import FOREIGN
from lib.small_grid import resolve_small
from lib.study import protect, resolve
from smcda._io import write_text
from smcda.watch.runs import PLAN

PAPER = Path("paper")

try:
    SMALL_STUDY = resolve_small(config)
    STUDY = resolve(config)
except ConfigError as error:
    raise WorkflowError(f"config: {error}") from None
prefer_own_commands()


def out(path):
    """A path of this scale's results."""
    return f"{STUDY.folder}/{path}"


def in_report(name, category):
    """A page as an entry of the report."""
    caption = caption_of(name)
    return report(
        out(f"report/{name}.html"),
        caption=f"../report/{caption.name}",
        category=category,
        labels={"result": title_of(caption)},
    )


def data_of(wildcards):
    """The file of a dataset: prepared by a rule, or the user's own."""
    own = STUDY.at(wildcards.get("study", "runs")).dataset(wildcards.dataset).data
    return own or out(f"data/{wildcards.dataset}.npz")


def model_of(wildcards):
    """The file in which a user's own model is written."""
    return STUDY.at(wildcards.get("study", "runs")).dataset(wildcards.dataset).model_files


def of_runs(pattern, studies=(STUDY,), scheme=None):
    """One file of every run of some studies, or of one scheme's runs."""
    return [pattern.format(study=study.path, **run) for study in studies for run in study.runs(scheme)]


def asks_for(resource):
    """What a run asks a scheduler for. Without study and scheme in its path it is the study's own, of `constant`."""

    def ask(wildcards, attempt):
        study = STUDY.at(wildcards.get("study", "runs"))
        cell = (
            wildcards.dataset,
            wildcards.get("scheme", "constant"),
            wildcards.kernel,
        )
        return request(study, *cell, attempt)[resource]

    return ask


def asks_for_small(resource):
    """What a run of the small-data study asks a scheduler for."""
    return lambda wildcards, attempt: SMALL_STUDY.request(wildcards.cell, attempt)[resource]


ASKED = ("gpu", "runtime", "mem_mb")
RESOURCES = {name: asks_for(name) for name in ASKED}
SMALL_RESOURCES = {name: asks_for_small(name) for name in ASKED}


LOCK = FileLock(".snakemake/smcda.lock")


def keep_others_out():
    """Lock the folder while this process lives; a dry run never gets here.

    Snakemake's own lock outlives a killed process and would have to be removed by hand before work can resume.
    """
    try:
        LOCK.acquire(blocking=False)
    except Timeout:
        raise WorkflowError("another Snakemake is at work in this folder: wait for it, or stop it") from None


# Their files are no part of the study's summary, figures, tables and paper, or are made from the reference data.
UNPROTECTED = {"reference_study", "reference_table", "reference_figure", "reference"}
UNPROTECTED |= {"compare", "curvature", "curvatures"}
SAMPLING_SMALL = {"small_data_smc", "small_data_baseline"}
UNPROTECTED |= SAMPLING_SMALL | {"small_data", "small_data_images", "small_data_runs"}
UNPROTECTED |= {"small_data_table", "small_data_figure", "kept_small_data_table", "kept_small_data_figure"}


def keep_finished():
    """Refuse to change a finished study unless the config says so, and announce which runs are made again.

    Called when Snakemake knows its jobs and before it starts one, or removes what one is going to make.
    """
    changed, records = {}, {}  # studies that jobs change, by the file that records them
    for job in workflow.dag.needrun_jobs():
        path = job.wildcards.get("study", job.rule.name)
        if path.startswith("ablations"):
            changed["ablations.json"] = ABLATIONS
        elif path not in UNPROTECTED:
            changed["study.json"] = [STUDY]
    try:
        for file, studies in changed.items():
            if not config["replace"]:
                records |= protect(studies, Path(out(file)))
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    of_other_code = any(each.get("numerics") != NUMERICS for each in records.values())
    because = ", because the sampler's code changed" * of_other_code
    warn_of_reruns({"run"}, STUDY.folder, f"{because} (give study=NAME to keep them)")
    warn_of_reruns(SAMPLING_SMALL, SMALL_STUDY.folder, " (give output_dir=DIR to keep them)")


def warn_of_reruns(rules_that_sample, folder, advice):
    """Announce in one line how many finished runs will be made again."""
    runs = [job for job in workflow.dag.jobs if job.rule.name in rules_that_sample]
    finished = [job for job in runs if Path(job.output.metrics).exists()]
    if n_again := sum(map(workflow.dag.needrun, finished)):
        logger.warning(f"{n_again} of {len(finished)} finished runs of {folder} will be made again{advice}")


def write_plan():
    """List the runs of this build and what each costs, for `smcda watch`; finished ones too."""
    files = {job.output.metrics for job in workflow.dag.jobs if job.rule.name == "run"}
    costs = {}
    for study in (STUDY, *ABLATIONS):
        for run in study.runs():
            file = rules.run.output.metrics.format(study=study.path, **run)
            if file in files:
                cell = (run[name] for name in ("dataset", "scheme", "kernel"))
                place = Path(file).parent.relative_to(STUDY.folder)
                costs[str(place)] = sampling_cost(study, *cell)
    if costs:
        plan = json.dumps({"started": time.time(), "runs": costs}, indent=1)
        write_text(Path(out(PLAN)), f"{plan}\n")


DATASETS = sorted({name for each in (STUDY, *STUDY.ablations()) for name in each.settings["datasets"]})


wildcard_constraints:
    study="runs|ablations/[^/]+",
    dataset="|".join(map(re.escape, DATASETS)),
    scheme="[a-z0-9_]+",
    kernel="[a-z0-9_]+",
    seed="[0-9]+",
