"""A project of its own for a test that builds one."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "workflow", "profiles", "paper", "smcda")
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
SPACED = ["output_dir=my results"]
"""Config with which every path that a rule's command names has a space."""


def copy_project(folder: Path) -> Path:
    """Copy all that Snakemake reads into a folder, and nothing that it has built."""
    for name in PARTS:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder


def run_snakemake(folder, *options, config=()):
    """Call Snakemake in a project, whose own copy of the package is imported."""
    command = [SNAKEMAKE, *options, "--cores", "2", "--config", "scale=tiny", *config]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def planned(folder, *targets, config=()):
    """How many jobs of each rule a dry run plans."""
    plan = run_snakemake(folder, *targets, "-n", "--quiet", "reason", config=config)
    assert plan.returncode == 0, plan.stdout + plan.stderr
    jobs = re.findall(r"^([a-z_]+) +(\d+)$", plan.stdout, re.MULTILINE)
    return {rule: int(count) for rule, count in jobs if rule not in ("total", "all")}


@contextmanager
def edited(file, old="", new="\n# changed\n"):
    """Replace a text that occurs once in a file, or append one, for as long as the context lasts."""
    text = file.read_text()
    assert not old or text.count(old) == 1, f"{old!r} is not there once"
    file.write_text(text.replace(old, new) if old else text + new)
    try:
        yield
    finally:
        file.write_text(text)
