"""The lease: no two runs on one GPU, and a dead holder's GPU is free at once."""

import os
import signal
import subprocess
import sys
import time

import pytest

from smcda.errors import BadInput
from smcda.parallel import gpu_lock as lease

# Leases a GPU, says which and when, holds it for a while, says when it lets go.
HOLDER = """
import sys, time
from smcda.parallel.gpu_lock import gpus_for
with gpus_for("gpu", int(sys.argv[2])) as held:
    print(*held, time.monotonic(), flush=True)
    time.sleep(float(sys.argv[1]))
    print(time.monotonic(), flush=True)
"""


@pytest.fixture
def machine(tmp_path):
    """An environment with four pretended GPUs and a lock folder of its own."""
    ours = {key: value for key, value in os.environ.items() if key not in lease.JOB_NUMBERS}
    ours.pop("CUDA_VISIBLE_DEVICES", None)
    return ours | {lease.PRETEND: "4", "TMPDIR": str(tmp_path)}


@pytest.fixture
def inside(machine, tmp_path, monkeypatch):
    """The same for leases in this process."""
    monkeypatch.setattr(lease.tempfile, "gettempdir", lambda: str(tmp_path))
    return machine


def hold(machine, seconds, count=1):
    command = [sys.executable, "-c", HOLDER, str(seconds), str(count)]
    return subprocess.Popen(command, env=machine, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_eight_processes_on_four_gpus_never_share_one(machine):
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


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_holders_gpu_is_free_at_once(machine, inside, death):
    alone = machine | {lease.PRETEND: "1"}
    holder = hold(alone, 60)
    assert holder.stdout.readline().startswith("0 ")
    waiting = hold(alone, 0)
    assert waiting.stderr.readline() == "smcda: all 1 GPUs are taken, waiting for 1\n"
    holder.send_signal(death)
    holder.wait()
    killed = time.monotonic()
    device, leased = waiting.stdout.readline().split()
    assert device == "0"
    assert float(leased) - killed < 3 * lease.SECONDS_BETWEEN_TRIES
    waiting.communicate()
    holder.communicate()


def test_a_leased_gpu_is_the_only_one_that_jax_will_see(inside):
    with lease.gpus_for("gpu", environment=inside) as first:
        other = dict(inside, CUDA_VISIBLE_DEVICES="0,1,2,3")
        assert (first, inside["CUDA_VISIBLE_DEVICES"]) == (["0"], "0")
        assert inside["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        with lease.gpus_for("gpu", environment=other) as second:
            assert (second, other["CUDA_VISIBLE_DEVICES"]) == (["1"], "1")


def test_several_gpus_are_leased_together_and_no_more_than_there_are(inside):
    with lease.gpus_for("gpu", 3, environment=inside) as held:
        assert held == ["0", "1", "2"]
    refused = pytest.raises(BadInput, match="2 GPUs are asked for, but there are 1")
    with refused, lease.gpus_for("gpu", 2, environment=dict(inside, CUDA_VISIBLE_DEVICES="7")):
        pass


def test_the_lease_is_among_the_devices_that_were_handed_out(inside):
    handed_out = dict(inside, CUDA_VISIBLE_DEVICES="GPU-5ab,3")
    with lease.gpus_for("gpu", environment=handed_out) as first:
        assert first == ["GPU-5ab"]
        with lease.gpus_for("gpu", environment=dict(inside, CUDA_VISIBLE_DEVICES="GPU-5ab,3")) as second:
            assert second == ["3"]
    for nothing in ("", "-1"):
        with lease.gpus_for("gpu", environment=dict(inside, CUDA_VISIBLE_DEVICES=nothing)) as held:
            assert held == []


def test_equal_numbers_in_two_jobs_of_a_scheduler_are_not_one_device(inside):
    jobs = [dict(inside, CUDA_VISIBLE_DEVICES="0", SLURM_JOB_ID=str(number)) for number in (11, 12)]
    with (
        lease.gpus_for("gpu", environment=jobs[0]) as first,
        lease.gpus_for("gpu", environment=jobs[1]) as second,
    ):
        assert first == second == ["0"]


def test_a_run_that_uses_no_gpu_leases_none(inside):
    for device, more in (("cpu", {}), ("auto", {"JAX_PLATFORMS": "cpu"}), ("gpu", {lease.PRETEND: "0"})):
        changed = inside | more
        with lease.gpus_for(device, environment=changed) as held:
            assert held == []
        assert "CUDA_VISIBLE_DEVICES" not in changed
        assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in changed


def test_a_lease_that_is_over_leaves_no_lock_behind(inside, tmp_path):
    with lease.gpus_for("gpu", 2, environment=inside):
        assert len(list(tmp_path.glob("smcda-gpus-*/*"))) == 2
    assert list(tmp_path.glob("smcda-gpus-*/*")) == []
