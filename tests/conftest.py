"""All workers of a test run share the programs that any of them has compiled."""

import os

import jax
import pytest


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that the processes of one test run share, and nobody else."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def cache(shared):
    """Where compiled programs are kept."""
    folder = shared / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    return folder
