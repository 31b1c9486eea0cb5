"""Adaptive runs on four devices, in processes of their own, come to an end.

The test of the compiled program in tests/parallel says why; this one would see a wait for another reason.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

RUN = """
import sys
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
from smcda.bench.timing import images
from smcda.config import SamplerConfig
from smcda.models.lenet import make_model
from smcda.runs.loop import Run

data = images(60)
config = SamplerConfig("adaptive", "hmc", 8, 12, batch_size=9)
run = Run(make_model("lenet5"), data.train_x, data.train_y, config, 3)
run.advance(12)
print(len(run.state.particles.sharding.device_set), run.trace()["resampled"].sum(), run.iteration)
"""
PROCESSES = 5
"""With collectives in no order each of four waited for ever."""


def test_adaptive_runs_on_four_devices_end(cache):
    # A device that waits for another ends the process after 40 seconds.
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    for _ in range(PROCESSES):
        command = [sys.executable, "-c", RUN, str(cache)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        devices, resampled, iterations = map(int, done.stdout.split())
        assert devices == 4, "all devices, without asking"
        assert resampled > 0 and iterations == 12
