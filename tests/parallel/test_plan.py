"""Four devices give the run of one, particles travel only when resampled, and no device waits for ever."""

import json
import os
import re
import subprocess
import sys

import pytest
from helpers.collectives import unordered

from smcda._io import exclusive
from smcda.errors import BadInput
from smcda.parallel.sharding import choose_devices

# Devices are counted once per process, so the comparison has one of its own.
COMPARISON = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
from smcda.bench.timing import images
from smcda.config import SamplerConfig
from smcda.models.base import Model
from smcda.models.lenet import make_model
from smcda.models.priors import gaussian
from smcda.runs import loop
from smcda.smc.schedules import SCHEDULES

data = images(60)
programs = []
compile_once = loop.compile_once

def recorded(lowered):
    compiled, digest = compile_once(lowered)
    programs.append(compiled)
    return compiled, digest

loop.compile_once = recorded

def slope(parameters, x, y):
    return -((y - parameters @ jnp.ones(3) * jnp.mean(x, axis=(1, 2)) / 255) ** 2)

# A network with native gradients, and a small model whose gradients XLA takes.
large = (make_model("lenet5"), 0.02)
small = (Model.from_log_likelihood(slope, gaussian(np.zeros(3), 1.0)), 0.1)
found = {}
for scheme in SCHEDULES:
    model, h = small if scheme == "automated" else large
    # Trajectories no longer than those of the others: every step of leapfrog makes rounding larger.
    own = {"leapfrog_steps": 3} if scheme == "adaptive" else {"step_size": h}
    runs = []
    for devices in (1, 4):
        config = SamplerConfig(scheme, "hmc", 8, 6, batch_size=9, devices=devices, **own)
        run = loop.Run(model, data.train_x, data.train_y, config, 3)
        run.advance(2)
        run.advance(4)
        runs.append(run)
    one, four = runs
    found[scheme] = {
        "devices": len(four.state.particles.sharding.device_set),
        "particles": float(np.abs(one.state.particles - four.state.particles).max()),
        "ancestors": bool(np.array_equal(one.state.root_ancestor, four.state.root_ancestor)),
        "root_ancestor": np.asarray(one.state.root_ancestor).tolist(),
        "ess": float(np.abs(one.trace()["ess"] - four.trace()["ess"]).max()),
        "programs": [program.as_text() for program in programs[-2:]],
    }
from smcda.parallel.sharding import choose_devices
found["chosen"] = {}
for particles in (8, 7, 6):
    mesh = choose_devices(None, particles)
    found["chosen"][particles] = 1 if mesh is None else mesh.size
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def comparison(cache, shared):
    """Made by one of the processes that share these tests."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    command = [sys.executable, "-c", COMPARISON, str(cache)]
    with exclusive(shared / "comparison.lock", "comparing devices"):
        if not (shared / "comparison.json").exists():
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            (shared / "comparison.json").write_text(done.stdout.splitlines()[-1])
    return json.loads((shared / "comparison.json").read_text())


@pytest.mark.system
@pytest.mark.parametrize(
    "scheme",
    [
        "constant",
        "full_batch",
        "constant_to_refine",
        "linear",
        "automated",
        "smooth_data_annealing",
        "adaptive",
    ],
)
def test_four_devices_give_the_particles_of_one(comparison, scheme):
    found = comparison[scheme]
    assert found["devices"] == 4
    assert found["ancestors"], "the same ancestors"
    assert len(set(found["root_ancestor"])) < 8, "resampling must have happened for this to mean anything"
    assert found["particles"] < 1e-5
    assert found["ess"] < 1e-2


@pytest.mark.system
@pytest.mark.parametrize("scheme", ["smooth_data_annealing"])
def test_particles_travel_only_when_they_are_resampled(comparison, scheme):
    collective = re.compile(r"= \(?(\S+) (all-gather|all-to-all|collective-permute|all-reduce)\S*\(")
    travelling = []
    for line in comparison[scheme]["programs"][1].splitlines():
        match = collective.search(line)
        if match and "61706" in match.group(1):
            travelling.append(line)
    assert travelling, "resampling must exchange particles"
    for line in travelling:
        assert "/cond/branch" in line, line


@pytest.mark.system
@pytest.mark.parametrize("scheme", ["smooth_data_annealing", "automated", "adaptive"])
@pytest.mark.parametrize("program", ["start", "block"])
def test_devices_start_their_collectives_in_one_order(comparison, scheme, program):
    text = comparison[scheme]["programs"][["start", "block"].index(program)]
    assert "all-gather" in text
    assert not unordered(text)


def test_a_collective_beside_a_conditional_that_has_one_is_found():
    program = """
%exchange (p: f32[2]) -> f32[8] {
  ROOT %all-gather.1 = f32[8]{0} all-gather(%p), channel_id=1
}

%stay (p: f32[2]) -> f32[8] {
  ROOT %broadcast.1 = f32[8]{0} broadcast(%p), dimensions={0}
}

ENTRY %main (x: f32[2], which: s32[]) -> f32[8] {
  %x = f32[2]{0} parameter(0)
  %which = s32[] parameter(1)
  %conditional = f32[8]{0} conditional(%which, %x, %x), branch_computations={%stay, %exchange}
  %all-reduce.2 = f32[2]{0} all-reduce(OPERAND), channel_id=2, to_apply=%add
}
"""
    assert unordered(program.replace("OPERAND", "%x")) == [("conditional", "all-reduce.2")]
    assert not unordered(program.replace("OPERAND", "%conditional"))


def test_one_device_needs_no_placing():
    assert choose_devices(None, 7) is None
    assert choose_devices(1, 7) is None


@pytest.mark.system
def test_without_a_number_the_most_devices_that_share_evenly_are_used(comparison):
    assert comparison["chosen"] == {"8": 4, "7": 1, "6": 3}


@pytest.mark.parametrize(
    ("requested", "particles", "message"),
    [
        (3, 8, "devices is 3, but 1 can be seen"),
        (2, 7, "choose a multiple of 2 \\(such as 6 or 8\\)"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_one_line(requested, particles, message):
    available = [None] if "seen" in message else [None, None]
    with pytest.raises(BadInput, match=message):
        choose_devices(requested, particles, available=available)
