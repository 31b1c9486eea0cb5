"""A project of its own for a test that builds one."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "workflow", "profiles", "paper", "smcda")


def copy_project(folder: Path) -> Path:
    """Copy all that Snakemake reads into a folder, and nothing that it has built."""
    for name in PARTS:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder
