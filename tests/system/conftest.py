"""Tiny data for whole runs, and a tiny study that was built whole."""

import numpy as np
import pytest
from helpers.command_line import call
from helpers.project_copy import SPACED, copy_project, run_snakemake


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """60 training and 30 test images of the bundled subset."""
    path = tmp_path_factory.mktemp("data") / "bundled.npz"
    assert call("data", "mnist", "--bundled", "--out", path) == (0, "", "")
    with np.load(path) as bundled:
        sizes = {"train_x": 60, "train_y": 60, "test_x": 30, "test_y": 30}
        return {name: bundled[name][:size] for name, size in sizes.items()}


@pytest.fixture(scope="module")
def data(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A project of its own, built whole; minutes, so once for all modules."""
    folder = copy_project(tmp_path_factory.mktemp("dag"))
    result = run_snakemake(folder, config=SPACED)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder
