"""A run that is stopped resumes: signals, faults and two processes at once."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.results import RESULTS, contents, files, write_data

from smcda._io import exclusive
from smcda.config import RunConfig, SamplerConfig
from smcda.errors import Diverged, SmcdaError, Stopped, configure_logging
from smcda.runs.checkpoint import MANIFEST, Checkpoints
from smcda.runs.runner import execute

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def printed():
    """Messages are printed as by the command."""
    configure_logging()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "small.npz")


def make_config(data, out, **changes):
    sampler = SamplerConfig(scheme="linear", particles=3, iterations=4, batch_size=20, step_size=0.01)
    options = {"model": "lenet5", "evaluate_every": 3, "save_posterior": True, "checkpoint_every": 1e-6}
    return RunConfig(data, out=out, sampler=sampler, **(options | changes))


def run(config, stop_at=None):
    """Make a run that sends itself a signal at one iteration; the iterations that its progress showed."""
    seen = []

    @contextmanager
    def view(title, n_iterations):
        def report(iteration, status, is_last):
            seen.append(iteration)
            if iteration == stop_at:
                signal.raise_signal(signal.SIGTERM)

        yield report

    execute(config, view)
    return seen


def messages(capfd):
    """What was printed, without the doubts about a result of three particles."""
    lines = capfd.readouterr().err.splitlines()
    return [
        line for line in lines if not line.startswith(("smcda: all 3 particles", "smcda: a move changes"))
    ]


def resumed(out):
    return json.loads((out / "metrics.json").read_text())["resumed"]


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run(make_config(data, out))
    assert resumed(out) == 0
    assert [path.name for path in out.parent.iterdir()] == ["run"]
    return contents(out)


def test_a_run_stopped_and_damaged_on_its_way_ends_as_the_undisturbed_one(data, undisturbed, tmp_path, capfd):
    config = make_config(data, tmp_path / "run")
    with pytest.raises(Stopped) as stopped:
        run(config, stop_at=1)
    assert stopped.value.exit_code == 75
    assert "stopped by SIGTERM at iteration 1, iteration 1 is saved" in str(stopped.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.checkpoints"]
    assert files(tmp_path / "run") == []
    with pytest.raises(Stopped):
        run(config, stop_at=3)
    (newest,) = tmp_path.glob("run.checkpoints/*/3")
    os.truncate(newest / MANIFEST, 100)
    capfd.readouterr()
    seen = run(config)
    lines = messages(capfd)
    assert lines[0].startswith(f"smcda: checkpoint {newest} is not used: ")
    assert lines[1].startswith("smcda: resuming at iteration 2 of 4 from ")
    assert len(lines) == 2
    assert seen[0] == 3
    assert contents(tmp_path / "run") == undisturbed
    assert resumed(tmp_path / "run") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert files(tmp_path / "run") == RESULTS


def test_changed_data_are_recognised_by_their_hash_and_start_from_scratch(data, tmp_path, capfd):
    changed = tmp_path / "data.npz"
    changed.write_bytes(data.read_bytes())
    config = make_config(changed, tmp_path / "run")
    with pytest.raises(Stopped):
        run(config, stop_at=2)
    with np.load(changed) as archive:
        arrays = dict(archive)
    arrays["train_x"][5, 14, 14] ^= 1
    np.savez(changed, **arrays)
    capfd.readouterr()
    assert run(config)[0] == 1
    (line,) = messages(capfd)
    assert line.endswith("is not used: it was made with another data_sha256")
    assert resumed(tmp_path / "run") == 0


@contextmanager
def no_space_for(name, monkeypatch):
    """Let writing a file of this name fail as on a full disk."""
    fsync = os.fsync

    def full(descriptor):
        if name in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        yield


def test_results_that_cannot_be_written_leave_no_part_and_the_finished_run(
    data, undisturbed, tmp_path, monkeypatch, capfd
):
    config = make_config(data, tmp_path / "run", checkpoint_every=0.0)
    with no_space_for("metrics.json", monkeypatch), pytest.raises(SmcdaError) as failed:
        run(config)
    assert failed.value.exit_code == 1
    path = tmp_path / "run" / "metrics.json"
    assert str(failed.value).startswith(f"{path} can't be written (No space left on device)")
    assert "iteration 4 of 4 is saved" in str(failed.value)
    assert files(tmp_path / "run") == ["posterior.npz", "trace.csv"]
    capfd.readouterr()
    assert run(config) == []
    assert "resuming at iteration 4 of 4" in capfd.readouterr().err
    assert contents(tmp_path / "run") == undisturbed
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


OLD = {name: f"old {name}" for name in RESULTS}
KILLED = """
import os, sys
from pathlib import Path
from smcda.cli import main

def replace(path, target, rename=Path.replace):
    if path == Path(sys.argv[1]):
        os.kill(os.getpid(), 9)
    return rename(path, target)

Path.replace = replace
sys.exit(main(sys.argv[2:]))
"""


def hold_old_results(out):
    out.mkdir()
    for name, text in OLD.items():
        (out / name).write_text(text)


def texts(out):
    return {name: (out / name).read_text() for name in files(out)}


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_cannot_be_written_leave_those_that_they_should_replace(
    name, data, undisturbed, tmp_path, monkeypatch
):
    hold_old_results(tmp_path / "run")
    config = make_config(data, tmp_path / "run", checkpoint_every=0.0, overwrite=True)
    with no_space_for(name, monkeypatch), pytest.raises(SmcdaError, match="iteration 4 of 4 is saved"):
        run(config)
    assert texts(tmp_path / "run") == OLD
    assert run(config) == []
    assert contents(tmp_path / "run") == undisturbed
    assert files(tmp_path / "run") == RESULTS


def test_a_replacing_run_that_is_stopped_or_diverges_leaves_the_finished_one(data, tmp_path):
    hold_old_results(tmp_path / "run")
    config = make_config(data, tmp_path / "run", overwrite=True)
    with pytest.raises(Stopped):
        run(config, stop_at=2)
    assert texts(tmp_path / "run") == OLD
    with pytest.raises(Diverged):
        run(replace(config, sampler=replace(config.sampler, step_size=1e20)))
    assert texts(tmp_path / "run") == OLD


@pytest.mark.parametrize("name", RESULTS)
def test_a_replacing_run_killed_between_its_files_counts_as_unfinished_and_resumes(
    name, data, undisturbed, cache, tmp_path
):
    out = tmp_path / "run"
    hold_old_results(out)
    config = make_config(data, out, overwrite=True)
    options = {
        "data": data, "out": out, "model": "lenet5", "scheme": "linear", "kernel": config.sampler.kernel,
        "seed": config.seed, "particles": 3, "iterations": 4, "batch-size": 20, "step-size": 0.01,
        "evaluate-every": 3, "checkpoint-every": 1e-6, "compilation-cache": cache,
    }  # fmt: skip
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    command = ["run", *words, "--overwrite", "--save-posterior", "--quiet"]
    killed = subprocess.run([sys.executable, "-c", KILLED, out / ".new" / name, *command])
    assert killed.returncode == -signal.SIGKILL
    assert not (out / "metrics.json").exists()
    run(replace(config, overwrite=False))
    assert contents(out) == undisturbed
    assert resumed(out) == 1
    assert files(out) == RESULTS


def test_results_on_a_full_disk(data, undisturbed, tmp_path, capfd):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        # The posterior, 0.7 MB, is what does not fit.
        config = make_config(data, disk / "run", checkpoint_dir=tmp_path / "kept", checkpoint_every=0.0)
        with pytest.raises(SmcdaError, match=r"posterior\.npz can't be written \(No space left on device\)"):
            run(config)
        assert files(disk / "run") == ["trace.csv"]
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        assert run(config) == []
        assert contents(disk / "run") == undisturbed
        assert [path.name for path in tmp_path.iterdir()] == ["disk"]
        (line,) = messages(capfd)
        assert line.startswith("smcda: resuming at iteration 4 of 4 from ")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_signal_with_nowhere_to_save_is_a_failure_that_says_so(data, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoints, "save", lambda *arguments: None)
    with pytest.raises(SmcdaError, match="no checkpoint could be saved") as stopped:
        run(make_config(data, tmp_path / "run"), stop_at=2)
    assert stopped.value.exit_code == 1
    assert files(tmp_path / "run") == []


@pytest.fixture
def as_from_a_terminal():
    """SIGINT interrupts; where a script starts a process in the background, it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("as_from_a_terminal")
def test_a_signal_before_the_first_iteration_acts_as_without_a_handler(data, undisturbed, tmp_path):
    """While a resumed run compiles or waits, a signal ends the process; what it had is still there."""
    config = make_config(data, tmp_path / "run")
    with pytest.raises(Stopped):
        run(config, stop_at=2)
    before = sorted(tmp_path.glob("run.checkpoints/*/*"))

    def impatient(title, n_iterations):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        execute(config, impatient)
    assert sorted(tmp_path.glob("run.checkpoints/*/*")) == before
    assert run(config)[0] == 3
    assert contents(tmp_path / "run") == undisturbed


def test_a_run_waits_for_another_process_that_makes_it(data, tmp_path, capfd):
    config = make_config(data, tmp_path / "run", checkpoint_every=0.0)
    seen = []
    with exclusive(tmp_path / "run" / ".lock", "testing"):
        waiting = threading.Thread(target=lambda: seen.append(run(config)))
        waiting.start()
        message = ""
        while "waiting" not in message:
            assert waiting.is_alive()
            time.sleep(0.05)
            message += capfd.readouterr().err
        assert files(tmp_path / "run") == []
    waiting.join()
    assert message == f"smcda: waiting for another process that is making {tmp_path / 'run'}\n"
    assert seen[0][-1] == 4
    assert files(tmp_path / "run") == RESULTS
