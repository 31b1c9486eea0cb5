"""Checkpoints: a resumed run is the undisturbed one, and a save that fails costs nothing that was saved."""

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import gaussian
from helpers.checkpoint_store import ARRAYS, IDENTITY, restored, store, two_generations

from smcda.run import generation
from smcda.run.checkpoint import Checkpoints, seconds_to_save
from smcda.run.generation import SaveFailed
from smcda.run.loop import Run
from smcda.settings import Settings
from smcda.smc.kernels import KERNELS
from smcda.smc.schedules import SCHEMES


def make_run(scheme="linear", kernel="hmc"):
    chosen = Settings(
        scheme=scheme,
        kernel=kernel,
        particles=8,
        iterations=6,
        batch_size=6,
        step_size=0.3,
        delta_entropy=5.0,
    )
    return Run(gaussian.log_likelihood, gaussian.prior(), *gaussian.data(), chosen, seed=3)


def as_bytes(run):
    """State and trace, without clocks."""
    saved = run.saved()
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((saved.state, saved.trace))]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_run_resumed_at_any_iteration_ends_as_the_undisturbed_one(scheme, kernel, tmp_path):
    undisturbed = make_run(scheme, kernel)
    undisturbed.advance(6)
    interrupted, other = make_run(scheme, kernel), make_run(scheme, kernel)
    for iteration in range(1, 7):
        interrupted.advance(1)
        Checkpoints(tmp_path, IDENTITY, tmp_path).save(iteration, interrupted.saved())
        found = Checkpoints(tmp_path, IDENTITY, tmp_path).restore(like=other.saved())
        other.restore(found)
        assert other.iteration == iteration
        assert other.runtime_s == interrupted.runtime_s
        assert (other.trace()["runtime_s"] == interrupted.trace()["runtime_s"]).all()
        if not other.is_finished:
            other.advance(6)
        assert as_bytes(other) == as_bytes(undisturbed)
        assert other.log_evidence() == undisturbed.log_evidence()
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
        generation, "flush", lambda path: seen.append(sum(a.nbytes for a in jax.live_arrays()))
    )
    store(tmp_path).save(2, run.saved())
    assert set(seen) == {before}


def test_the_cost_of_a_checkpoint_can_be_measured():
    assert 0 < seconds_to_save(ARRAYS) < 30


def test_two_generations_are_kept_and_all_are_removed_at_the_end(tmp_path, capsys):
    checkpoints = store(tmp_path / "c")
    with checkpoints.alone(lambda: None):
        for iteration in range(5):
            checkpoints.save(iteration, ARRAYS)
        names = [path.name for path in sorted(checkpoints.folder.iterdir())]
        assert names == ["generation-000004", "generation-000005"]
        checkpoints.remove()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == ""


def test_nothing_is_said_when_there_is_no_checkpoint(tmp_path, capsys):
    assert restored(tmp_path / "none") is None
    assert capsys.readouterr().err == ""


@pytest.fixture
def two(tmp_path):
    """The folders of two generations, of iterations 1 and 2."""
    return two_generations(tmp_path / "c")


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
def test_a_full_disk_is_said_and_leaves_the_older_generations(small_disk, fill, capfd, caplog):
    random = np.random.default_rng(0)
    arrays = {"particles": random.normal(size=50_000).astype(np.float32)}
    checkpoints = store(small_disk / "c")
    with checkpoints.alone(lambda: None):
        checkpoints.save(1, arrays)
        (small_disk / "other").write_bytes(bytes(min(fill, shutil.disk_usage(small_disk).free)))
        saved = []
        for iteration in range(2, 8):
            checkpoints.save(iteration, {"particles": random.normal(size=100_000).astype(np.float32)})
            saved.append(checkpoints.saved_at)
        left = sorted(path.name for path in checkpoints.folder.iterdir())
    said = capfd.readouterr().err
    assert "Traceback" not in said and caplog.records == []
    assert said.count("could not be saved: ") == said.count("No space left on device") == said.count("\n") > 0
    assert len(left) == min(2, len(set(saved) | {1}))
    assert all(re.fullmatch(r"generation-\d{6}", name) for name in left)
    for folder in checkpoints.folder.iterdir():
        generation.read_manifest(folder)


@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
def test_whatever_fails_while_saving_leaves_the_older_generation(call, two, tmp_path, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        if call == "fsync":
            broken.setattr(os, "fsync", fail)
        else:
            broken.setattr(Path, call, fail)
        with pytest.raises(SaveFailed, match="No space left"):
            generation.write(two[0].with_name("generation-000009"), ARRAYS, {})
    assert sorted(two[0].parent.iterdir()) == two
    assert restored(tmp_path / "c") == 2
