"""A run that is stopped goes on: signals, faults and two processes at once, at the level of the command."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from smcda.request import RunRequest
from smcda.settings import Settings

from smcda import _locks as locks
from smcda._io import whole_file
from smcda._locks import locked
from smcda.errors import SmcdaError, Stopped
from smcda.run.progress import Silent
from smcda.run.runner import execute
from smcda.run.signals import StopSignals

ROOT = Path(__file__).parents[2]
CLOCKS = {"runtime_s", "compile_s", "evaluation_s", "checkpoint_s", "peak_memory_mb", "resumed"}
RESULTS = ["metrics.json", "posterior.npz", "trace.csv"]


def write_data(path, n_train=60):
    """Bundled images, as the tests of the command use, so that both share compiled programs."""
    with np.load(ROOT / "smcda" / "data" / "bundled" / "mnist.npz") as bundled:
        sizes = {"train_x": n_train, "train_y": n_train, "test_x": 30, "test_y": 30}
        np.savez(path, **{name: bundled[name][:size] for name, size in sizes.items()})
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "small.npz")


def make_request(data, out, **changes):
    chosen = Settings(scheme="linear", particles=3, iterations=4, batch_size=20, step_size=0.01)
    options = {"network": "lenet5", "evaluate_every": 3, "save_posterior": True, "checkpoint_every": 1e-6}
    return RunRequest(data, out=out, settings=chosen, **(options | changes))


class StopAt(Silent):
    """A view that lets a signal come at one iteration, and counts what it sees."""

    def __init__(self, iteration=None):
        self.stop, self.iteration, self.seen = StopSignals(), iteration, []

    def step(self, status):
        self.seen.append(status.iteration)
        if status.iteration == self.iteration:
            self.stop.received = "SIGTERM"


def run(request, stop_at=None):
    view = StopAt(stop_at)
    execute(request, view, view.stop)
    return view.seen


def contents(out):
    metrics = json.loads((out / "metrics.json").read_text())
    rows = [line.split(",") for line in (out / "trace.csv").read_text().splitlines()]
    clock = rows[0].index("runtime_s")
    return (
        {name: value for name, value in metrics.items() if name not in CLOCKS},
        [row[:clock] + row[clock + 1 :] for row in rows],
        (out / "posterior.npz").read_bytes(),
    )


def resumed(out):
    return json.loads((out / "metrics.json").read_text())["resumed"]


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run(make_request(data, out))
    assert resumed(out) == 0
    assert [path.name for path in out.parent.iterdir()] == ["run"]
    return contents(out)


def test_a_run_stopped_and_damaged_on_its_way_ends_as_the_undisturbed_one(data, undisturbed, tmp_path, capfd):
    request = make_request(data, tmp_path / "run")
    with pytest.raises(Stopped) as stopped:
        run(request, stop_at=1)
    assert stopped.value.exit_code == 75
    assert "stopped by SIGTERM at iteration 1, iteration 1 is saved" in str(stopped.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoints"]
    with pytest.raises(Stopped):
        run(request, stop_at=3)
    newest = max(tmp_path.glob("run.checkpoints/*/generation-*"))
    os.truncate(newest / "manifest.json", 100)
    capfd.readouterr()
    seen = run(request)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith(f"smcda: checkpoint {newest} is not used: ")
    assert lines[1].startswith("smcda: resuming at iteration 2 of 4 from ")
    assert len(lines) == 2
    assert seen[0] == 3
    assert contents(tmp_path / "run") == undisturbed
    assert resumed(tmp_path / "run") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == RESULTS


def test_changed_data_are_told_by_their_hash_and_start_afresh(data, tmp_path, capfd):
    changed = tmp_path / "data.npz"
    changed.write_bytes(data.read_bytes())
    request = make_request(changed, tmp_path / "run")
    with pytest.raises(Stopped):
        run(request, stop_at=2)
    with np.load(changed) as archive:
        arrays = dict(archive)
    arrays["train_x"][5, 14, 14] ^= 1
    np.savez(changed, **arrays)
    capfd.readouterr()
    assert run(request)[0] == 1
    said = capfd.readouterr().err
    assert said.count("\n") >= 1 and "is not used: it was made with another data_sha256" in said
    assert resumed(tmp_path / "run") == 0


def test_results_that_cannot_be_written_leave_no_part_and_the_finished_run(
    data, undisturbed, tmp_path, monkeypatch, capfd
):
    request = make_request(data, tmp_path / "run", checkpoint_every=0.0)
    fsync = os.fsync

    def full(descriptor):
        if "metrics.json" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as broken, pytest.raises(SmcdaError) as failed:
        broken.setattr(os, "fsync", full)
        run(request)
    assert failed.value.exit_code == 1
    path = tmp_path / "run" / "metrics.json"
    assert str(failed.value).startswith(f"{path} can't be written (No space left on device)")
    assert "iteration 4 of 4 is saved" in str(failed.value)
    assert not list((tmp_path / "run").glob("*metrics*")) and not list((tmp_path / "run").glob(".*"))
    capfd.readouterr()
    assert run(request) == []
    assert "resuming at iteration 4 of 4" in capfd.readouterr().err
    assert contents(tmp_path / "run") == undisturbed
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_results_on_a_full_disk(data, undisturbed, tmp_path, capfd):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        # The posterior, 0.7 MB, is what does not fit.
        request = make_request(data, disk / "run", checkpoint_dir=tmp_path / "kept", checkpoint_every=0.0)
        with pytest.raises(SmcdaError, match=r"posterior\.npz can't be written \(No space left on device\)"):
            run(request)
        assert [path.name for path in (disk / "run").iterdir()] == ["trace.csv"]
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        assert run(request) == []
        assert contents(disk / "run") == undisturbed
        assert [path.name for path in tmp_path.iterdir()] == ["disk"]
        said = capfd.readouterr().err
        assert "Traceback" not in said and "Exception" not in said
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_signal_with_nowhere_to_save_is_a_failure_that_says_so(data, tmp_path, monkeypatch):
    from smcda.run import generation

    def full(*args):
        raise generation.SaveFailed("No space left on device")

    monkeypatch.setattr(generation, "write", full)
    with pytest.raises(SmcdaError, match="no checkpoint could be saved") as stopped:
        run(make_request(data, tmp_path / "run"), stop_at=2)
    assert stopped.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_waits_for_another_process_that_makes_it(data, tmp_path, capfd):
    # Both locks: that of the place, and that of the checkpoints, which other places may share.
    request = make_request(data, tmp_path / "run", checkpoint_every=0.0)
    seen = []
    with locked(tmp_path / "run" / ".lock", "testing"):
        waiting = threading.Thread(target=lambda: seen.append(run(request)))
        waiting.start()
        said = ""
        while "waiting" not in said:
            assert waiting.is_alive()
            time.sleep(0.05)
            said += capfd.readouterr().err
        assert not (tmp_path / "run.checkpoints").exists()
    waiting.join()
    assert said == f"smcda: waiting for another process that is making {tmp_path / 'run'}\n"
    assert seen[0][-1] == 4
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == RESULTS


# --- signals and locks by themselves, in small processes -----------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_is_noted_and_handlers_are_put_back(name):
    number = signal.Signals[name]
    before = [signal.getsignal(number) for number in signal.Signals if number not in (9, 19)]
    with StopSignals() as stop:
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert stop.received == name
        with pytest.raises(Stopped, match=name):
            stop.check()
    assert [signal.getsignal(number) for number in signal.Signals if number not in (9, 19)] == before


def test_a_second_interrupt_after_a_while_leaves_at_once():
    with pytest.raises(KeyboardInterrupt), StopSignals() as stop:
        signal.raise_signal(signal.SIGINT)
        stop._since -= 5
        signal.raise_signal(signal.SIGINT)


def test_outside_the_main_thread_signals_do_what_they_did():
    handlers = []

    def look():
        with StopSignals() as stop:
            handlers.append((signal.getsignal(signal.SIGTERM), stop.received))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [(before, None)]


def python(code, *arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


COMPILING = """
import time
from smcda.run.signals import StopSignals
with StopSignals(exits=True) as stop, stop.starting(lambda: print("farewell", flush=True)):
    print("compiling", flush=True)
    time.sleep(60)
"""


def test_a_signal_while_compiling_ends_the_process_at_once():
    process = python(COMPILING, cwd=ROOT)
    assert process.stdout.readline() == "compiling\n"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (75, "farewell\n")
    assert err == "smcda: stopped by SIGTERM before the first iteration: start again\n"


COUNT = """
import sys
from pathlib import Path
from smcda._locks import locked
folder = Path(sys.argv[1])
for _ in range(100):
    with locked(folder / "new" / ".lock", "counting"):
        number = int((folder / "count").read_text())
        (folder / "count").write_text(str(number + 1))
"""


def test_a_lock_lets_one_in_at_a_time_although_its_file_comes_and_goes(tmp_path):
    (tmp_path / "count").write_text("0")
    processes = [python(COUNT, tmp_path, cwd=ROOT) for _ in range(3)]
    for process in processes:
        assert process.wait(timeout=120) == 0, process.stderr.read()
    assert (tmp_path / "count").read_text() == "300"
    assert list(tmp_path.rglob(".lock")) == []


def test_a_lock_file_that_was_removed_meanwhile_is_opened_anew(tmp_path, monkeypatch):
    path, really_open = tmp_path / ".lock", locks._open
    opened_before = [really_open(path)]
    path.unlink()  # by its holder, who leaves
    monkeypatch.setattr(locks, "_open", lambda path: (opened_before or [really_open(path)]).pop())
    with locked(path, "testing"):
        assert path.exists()
    assert not path.exists()


HOLD = """
import sys, time
from pathlib import Path
from smcda._io import whole_file
from smcda._locks import locked
folder = Path(sys.argv[1])
with locked(folder / ".lock", "holding"), whole_file(folder / "result.json") as path:
    path.write_text("half")
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_lets_go_and_the_next_removes_what_it_left(tmp_path, capfd):
    process = python(HOLD, tmp_path, cwd=ROOT)
    assert process.stdout.readline() == "held\n"
    with whole_file(tmp_path / "result.json") as path:
        path.write_text("other")
    assert len(list(tmp_path.iterdir())) == 3  # what a living process has is not touched
    process.kill()
    process.wait()
    with locked(tmp_path / ".lock", "testing"), whole_file(tmp_path / "result.json") as path:
        path.write_text("whole")
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "whole"
    assert "waiting" not in capfd.readouterr().err


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError), locked(tmp_path / ".lock", "testing"):
        pass
    assert (tmp_path / "victim").read_text() == "kept"
