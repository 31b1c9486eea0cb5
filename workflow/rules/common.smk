"""Shared by all rules: the checked config, folders, hashes of sources."""

import fcntl
import os
import shutil
import sys
from pathlib import Path

WORKFLOW = Path(workflow.basedir) / "workflow"
sys.path.insert(0, str(WORKFLOW))

from study import NETWORKS, ConfigError, resolve, source_hash

try:
    STUDY = resolve(config, WORKFLOW / "schemas" / "config.schema.yaml")
except ConfigError as error:
    raise WorkflowError(f"config: {error}") from None

OUT = STUDY.folder
RUN = OUT + "/runs/{dataset}/{scheme}/{kernel}/seed-{seed}"

# The commands of the environment that runs Snakemake, also when it was not activated.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def script_hash(*names):
    """Hash of some of the workflow's scripts."""
    return source_hash(*(WORKFLOW / "scripts" / name for name in names))


def take_lock():
    """Keep two Snakemakes out of one folder by a lock that dies with its holder.

    Snakemake's own lock outlives a killed process and would have to be removed by hand before the
    work can go on; the default profile switches it off.
    """
    Path(".snakemake").mkdir(exist_ok=True)
    lock = open(".snakemake/smcda.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise WorkflowError(
            "another Snakemake is at work in this folder: wait for it, or stop it"
        ) from None
    return lock


if workflow.is_main_process and not workflow.dryrun:
    LOCK = take_lock()


wildcard_constraints:
    dataset="|".join(NETWORKS),
    scheme="[a-z_]+",
    kernel="[a-z_]+",
    seed="[0-9]+",
