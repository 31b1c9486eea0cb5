"""Checkpoints: a resumed run is the undisturbed one, and a save that fails costs nothing that was saved."""

import errno
import itertools
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from helpers import gaussian
from helpers.checkpoint_store import ARRAYS, FINGERPRINT, restored, store, two_checkpoints

from smcda.bench.timing import seconds_to_save
from smcda.config import SamplerConfig
from smcda.errors import configure_logging
from smcda.models.base import Model
from smcda.runs import checkpoint
from smcda.runs.checkpoint import Checkpoints
from smcda.runs.loop import Run
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import SCHEDULES


def make_run(scheme="linear", kernel="hmc"):
    own = {} if scheme == "adaptive" else {"step_size": 0.3, "delta_entropy": 5.0}
    config = SamplerConfig(scheme, kernel, 8, 6, batch_size=6, **own)
    return Run(
        Model.from_log_likelihood(gaussian.log_likelihood, gaussian.prior()), *gaussian.data(), config, seed=3
    )


def as_bytes(run):
    """State and trace, without clocks."""
    saved = run.to_save()
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((saved.state, saved.trace))]


QUICK = [("linear", "hmc"), ("smooth_data_annealing", "ld"), ("adaptive", "hmc")]


@pytest.mark.parametrize(
    ("scheme", "kernel"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * (case not in QUICK))
        for case in itertools.product(SCHEDULES, KERNELS)
    ],
)
def test_a_run_resumed_at_any_iteration_ends_as_the_undisturbed_one(scheme, kernel, tmp_path):
    undisturbed = make_run(scheme, kernel)
    undisturbed.advance(6)
    interrupted, other = make_run(scheme, kernel), make_run(scheme, kernel)
    checkpoints = Checkpoints(tmp_path, FINGERPRINT, tmp_path)
    for iteration in range(1, 7):
        interrupted.advance(1)
        checkpoints.save(iteration, interrupted.to_save())
        found = Checkpoints(tmp_path, FINGERPRINT, tmp_path).restore(like=other.to_save())
        other.restore(found)
        assert other.iteration == iteration
        assert other.runtime_s == interrupted.runtime_s
        assert (other.trace()["runtime_s"] == interrupted.trace()["runtime_s"]).all()
        if not other.is_finished:
            other.advance(6)
        assert as_bytes(other) == as_bytes(undisturbed)
        assert other.diagnose() == undisturbed.diagnose()
    assert as_bytes(interrupted) == as_bytes(undisturbed)


def test_every_bit_of_an_array_comes_back(tmp_path):
    strange = np.array([np.nan, -np.nan, np.inf, -0.0, 0.0, 1e-45, 1], np.float32)
    payload = np.array([0x7FC00123, 0xFFC00001], np.uint32).view(np.float32)
    arrays = {"strange": strange, "payload": payload, "minus": np.full((2, 3), -0.0), "one": np.asarray(0.1)}
    store(tmp_path).save(1, arrays)
    found = store(tmp_path).restore(arrays)
    assert {k: (v.tobytes(), v.dtype, v.shape) for k, v in found.items()} == {
        k: (v.tobytes(), v.dtype, v.shape) for k, v in arrays.items()
    }


def test_saving_makes_nothing_on_the_device(tmp_path, monkeypatch):
    run = make_run()
    run.advance(2)
    before = sum(array.nbytes for array in jax.live_arrays())
    seen = []
    monkeypatch.setattr(
        checkpoint, "fsync", lambda path: seen.append(sum(a.nbytes for a in jax.live_arrays()))
    )
    store(tmp_path).save(2, run.to_save())
    assert set(seen) == {before}


def test_the_cost_of_a_checkpoint_can_be_measured():
    assert 0 < seconds_to_save(ARRAYS) < 30


def test_two_checkpoints_are_kept_and_all_are_removed_at_the_end(tmp_path, capfd):
    configure_logging()
    checkpoints = store(tmp_path / "c")
    for iteration in range(1, 11):
        checkpoints.save(iteration, ARRAYS)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["10", "9"]
    assert list((tmp_path / "c").iterdir()) == [checkpoints.folder]
    checkpoints.remove()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_removing_a_runs_checkpoints_leaves_those_of_another(tmp_path):
    runs = [store(tmp_path / "c", seed=seed) for seed in (1, 2)]
    for run in runs:
        run.save(1, ARRAYS)
    runs[0].remove()
    assert runs[1].restore(ARRAYS) is not None


def test_a_moved_folder_is_found_again_and_another_output_folder_has_its_own(tmp_path):
    two_checkpoints(tmp_path / "here" / "c")
    (tmp_path / "here").rename(tmp_path / "there")
    assert restored(tmp_path / "there" / "c") == 2
    other = Checkpoints(tmp_path / "there" / "c", FINGERPRINT, tmp_path / "there" / "other")
    assert other.restore(ARRAYS) is None


@pytest.mark.system
def test_nothing_is_said_when_there_is_no_checkpoint_and_orbax_is_not_imported(tmp_path):
    code = "import sys; from pathlib import Path; from helpers.checkpoint_store import restored\n"
    code += "assert restored(Path(sys.argv[1])) is None; sys.exit('orbax.checkpoint' in sys.modules)"
    search = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "none"],
        capture_output=True,
        env=os.environ | {"PYTHONPATH": search},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("fill", [0, 600_000, 1_040_000])
def test_a_full_disk_is_reported_in_one_line_and_leaves_the_older_checkpoints(small_disk, fill, capfd):
    configure_logging()
    random = np.random.default_rng(0)
    checkpoints = store(small_disk / "c")
    checkpoints.save(1, {"particles": random.normal(size=50_000).astype(np.float32)})
    (small_disk / "other").write_bytes(bytes(min(fill, shutil.disk_usage(small_disk).free)))
    larger = {"particles": random.normal(size=100_000).astype(np.float32)}
    saved = [1]
    for iteration in range(2, 8):
        saved.append(checkpoints.save(iteration, larger))
    message = capfd.readouterr().err
    assert message.count("could not be saved: No space left on device\n") == message.count("\n") > 0
    left = sorted(int(path.name) for path in checkpoints.folder.iterdir())
    assert left == sorted(set(saved))[-2:]
    if left[-1] > 1:
        assert store(small_disk / "c").restore(larger) is not None


@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
def test_whatever_fails_while_saving_leaves_the_older_checkpoints(call, tmp_path, monkeypatch, capfd):
    configure_logging()
    two_checkpoints(tmp_path / "c")
    checkpoints = store(tmp_path / "c")
    checkpoints.restore(ARRAYS | {"iteration": np.asarray(0)})

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        assert checkpoints.save(9, ARRAYS) == 2
    message = capfd.readouterr().err
    assert message == "smcda: the checkpoint of iteration 9 could not be saved: No space left on device\n"
    assert restored(tmp_path / "c") == 2
    assert checkpoints.save(9, ARRAYS) == 9
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["2", "9"]
