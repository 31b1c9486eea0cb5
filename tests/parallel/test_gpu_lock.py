"""No two runs on one GPU, and a dead holder's GPU is free at once. All GPUs here are simulated."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from smcda._io import POLL_SECONDS
from smcda.errors import BadInput
from smcda.parallel import gpu_lock
from smcda.parallel.gpu_lock import FAKE_GPUS_VAR, reserve_gpus

# Reserves GPUs, prints which and when, holds them for a while, prints when it releases them.
HOLDER = """
import sys, time
from smcda.errors import configure_logging
from smcda.parallel.gpu_lock import reserve_gpus
configure_logging()
with reserve_gpus("gpu", int(sys.argv[2])) as held:
    print(*held, time.monotonic(), flush=True)
    time.sleep(float(sys.argv[1]))
    print(time.monotonic(), flush=True)
"""


@pytest.fixture
def machine(tmp_path):
    """An environment with four simulated GPUs and a lock folder of its own."""
    ours = {key: value for key, value in os.environ.items() if key not in gpu_lock.JOB_ID_VARS}
    ours.pop("CUDA_VISIBLE_DEVICES", None)
    return ours | {FAKE_GPUS_VAR: "4", "TMPDIR": str(tmp_path)}


@pytest.fixture
def inside(machine, tmp_path, monkeypatch):
    """The same for this process."""
    monkeypatch.setattr(gpu_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    return machine


def hold(machine, seconds, count=1):
    command = [sys.executable, "-c", HOLDER, str(seconds), str(count)]
    return subprocess.Popen(command, env=machine, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.system
def test_eight_processes_on_four_simulated_gpus_never_share_one(machine):
    holders = [hold(machine, 0.6) for _ in range(8)]
    spans = {}
    for holder in holders:
        out, err = holder.communicate(timeout=60)
        assert holder.returncode == 0, err
        device, start, end = out.split()
        spans.setdefault(device, []).append((float(start), float(end)))
    assert set(spans) == {"0", "1", "2", "3"}
    assert sum(map(len, spans.values())) == 8
    for device, times in spans.items():
        times.sort()
        for (_, end), (start, _) in zip(times, times[1:], strict=False):
            assert end <= start, f"GPU {device} had two holders at once"


@pytest.mark.system
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_holders_simulated_gpu_is_free_at_once(machine, death):
    alone = machine | {FAKE_GPUS_VAR: "1"}
    holder = hold(alone, 60)
    assert holder.stdout.readline().startswith("0 ")
    waiting = hold(alone, 0)
    assert waiting.stderr.readline() == "smcda: all 1 GPUs are taken, waiting for 1\n"
    holder.send_signal(death)
    holder.wait()
    killed = time.monotonic()
    device, reserved = waiting.stdout.readline().split()
    assert device == "0"
    assert float(reserved) - killed < 5 * POLL_SECONDS
    waiting.communicate()
    holder.communicate()


def test_a_reserved_simulated_gpu_is_the_only_one_that_jax_will_see(inside):
    with reserve_gpus("gpu", environment=inside) as first:
        other = dict(inside, CUDA_VISIBLE_DEVICES="0,1,2,3")
        assert (first, inside["CUDA_VISIBLE_DEVICES"]) == (["0"], "0")
        assert inside["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        with reserve_gpus("gpu", environment=other) as second:
            assert (second, other["CUDA_VISIBLE_DEVICES"]) == (["1"], "1")


def test_several_simulated_gpus_are_reserved_together_and_no_more_than_there_are(inside):
    with reserve_gpus("gpu", 3, environment=inside) as held:
        assert held == ["0", "1", "2"]
    refused = pytest.raises(BadInput, match="2 GPUs are requested, but there are 1")
    with refused, reserve_gpus("gpu", 2, environment=dict(inside, CUDA_VISIBLE_DEVICES="7")):
        pass


def test_simulated_gpus_are_chosen_among_those_that_were_given(inside):
    given = dict(inside, CUDA_VISIBLE_DEVICES="GPU-5ab,3")
    with reserve_gpus("gpu", environment=given) as first:
        assert first == ["GPU-5ab"]
        with reserve_gpus("gpu", environment=dict(inside, CUDA_VISIBLE_DEVICES="GPU-5ab,3")) as second:
            assert second == ["3"]
    for nothing in ("", "-1"):
        with reserve_gpus("gpu", environment=dict(inside, CUDA_VISIBLE_DEVICES=nothing)) as held:
            assert held == []


def test_equal_numbers_in_two_jobs_of_a_scheduler_are_not_one_simulated_gpu(inside):
    jobs = [dict(inside, CUDA_VISIBLE_DEVICES="0", SLURM_JOB_ID=str(number)) for number in (11, 12)]
    with (
        reserve_gpus("gpu", environment=jobs[0]) as first,
        reserve_gpus("gpu", environment=jobs[1]) as second,
    ):
        assert first == second == ["0"]


def test_a_run_that_uses_no_gpu_reserves_none(inside):
    for device, more in (("cpu", {}), ("auto", {"JAX_PLATFORMS": "cpu"}), ("gpu", {FAKE_GPUS_VAR: "0"})):
        changed = inside | more
        with reserve_gpus(device, environment=changed) as held:
            assert held == []
        assert "CUDA_VISIBLE_DEVICES" not in changed
        assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in changed


def test_two_who_want_several_simulated_gpus_hold_none_while_they_wait(inside, monkeypatch):
    """Else each could hold what the other waits for."""
    locks = ExitStack()
    locks.enter_context(reserve_gpus("gpu", 3, environment=inside | {}))
    seen = []

    def sleep(seconds):
        with reserve_gpus("gpu", environment=inside | {}) as held:
            seen.append(held)
        locks.close()

    monkeypatch.setattr("time.sleep", sleep)
    with reserve_gpus("gpu", 2, environment=inside | {}) as held:
        assert held == ["0", "1"]
    assert seen == [["3"]]
