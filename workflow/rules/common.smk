"""Shared by all rules: the checked config, folders, hashes of sources."""

import os
import shutil
import sys
from pathlib import Path

WORKFLOW = Path(workflow.basedir) / "workflow"
PAPER = Path(workflow.basedir) / "paper"
sys.path[:0] = [str(WORKFLOW)]
sys.path.append(str(WORKFLOW / "scripts"))

from study import (
    NETWORKS,
    ConfigError,
    prefer_own_commands,
    resolve,
    source_hash,
    take_lock,
)

try:
    STUDY = resolve(config, WORKFLOW / "schemas" / "config.schema.yaml")
except ConfigError as error:
    raise WorkflowError(f"config: {error}") from None


def out(path):
    """A path of this scale's results."""
    return f"{STUDY.folder}/{path}"


def script_hash(*names):
    """Hash of some of the workflow's scripts."""
    return source_hash(*(WORKFLOW / "scripts" / name for name in names))


def of_all_runs(pattern, scheme=None):
    """One file of every run of the study, or of a scheme's runs."""
    return [pattern.format(**run) for run in STUDY.runs(scheme)]


LOCK = None


def keep_others_out():
    """Take the folder's lock, for as long as this process lives; a dry run never gets here."""
    global LOCK
    try:
        LOCK = take_lock(Path(".snakemake"))
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


def summarise_what_is_there():
    """After a failure: summarise the runs that finished and say which did not.

    The files are dated to the beginning of time, so that the next Snakemake makes them anew: every
    run that is there is newer. If none is, they would pass for finished, and are removed.
    """
    from summary import write_summary

    tables = [
        Path(path) for path in (rules.summary.output.runs, rules.summary.output.summary)
    ]
    files = [Path(path) for path in of_all_runs(rules.run.output.metrics)]
    wants_no_runs = set(workflow.dag_settings.targets) == {"verify"}
    if LOCK is None or wants_no_runs or all(file.exists() for file in files):
        return
    for run in write_summary(STUDY.runs(), files, *tables):
        log = rules.run.log[0].format(**run)
        print(
            "missing: {dataset} {scheme} {kernel} seed {seed}".format(**run),
            f"(see {log})",
            file=sys.stderr,
        )
    for path in tables:
        if any(file.exists() for file in files):
            os.utime(path, (0, 0))
        else:
            path.unlink()


prefer_own_commands()


wildcard_constraints:
    dataset="|".join(NETWORKS),
    scheme="[a-z_]+",
    kernel="[a-z_]+",
    seed="[0-9]+",
