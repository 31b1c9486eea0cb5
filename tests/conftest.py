"""How a test run compiles: quickly rather than well, and each program once for all workers."""

import os

import jax
import pytest

QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def pytest_configure(config):
    """Compile without optimising, in a fifth of the time, unless tests that sample for long were asked for.

    Only this process: those that it starts compile as they do for a user.
    """
    if "not slow" in config.option.markexpr:
        given = os.environ.get("XLA_FLAGS")
        os.environ["XLA_FLAGS"] = f"{QUICK} {given or ''}"
        jax.devices()  # reads the flags
        if given is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = given


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
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    return folder
