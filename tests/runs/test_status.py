"""The status file: there while a run is under way, gone when it is done, and never in the way of sampling."""

import json
import threading
import time

import pytest

from smcda.errors import Diverged, SmcdaError, Stopped
from smcda.runs import status
from smcda.runs.status import NAME, Status


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(status, "SECONDS_BETWEEN_WRITES", 0.01)


def read(folder):
    return json.loads((folder / NAME).read_text())


def wait_until(is_true):
    for _ in range(500):
        if is_true():
            return
        time.sleep(0.01)
    raise AssertionError("not within five seconds")


def test_it_says_where_the_run_stands_and_is_gone_at_the_end(tmp_path):
    with Status(tmp_path, scheme="linear", iterations=9) as run:
        wait_until((tmp_path / NAME).exists)
        assert read(tmp_path)["scheme"] == "linear" and "iteration" not in read(tmp_path)
        for iteration in (3, 4):
            run.update(iteration=iteration, ess=1.5)
            wait_until(lambda: read(tmp_path).get("iteration") == iteration)  # noqa: B023
        assert read(tmp_path)["state"] == "running" and read(tmp_path)["ess"] == 1.5
    assert list(tmp_path.iterdir()) == []


def test_it_is_renewed_while_the_run_has_nothing_to_say(tmp_path):
    with Status(tmp_path):
        wait_until((tmp_path / NAME).exists)
        first = read(tmp_path)["written"]
        wait_until(lambda: read(tmp_path)["written"] > first)


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (Stopped("stopped by SIGTERM at iteration 4"), "stopped", "stopped by SIGTERM at iteration 4"),
        (Diverged("no particle is left"), "diverged", "no particle is left"),
        (SmcdaError("two\nlines"), "failed", "two lines"),
        (OSError(28, "No space left on device"), "failed", "[Errno 28] No space left on device"),
        (MemoryError(), "failed", "MemoryError"),
        (KeyboardInterrupt(), "stopped", "KeyboardInterrupt"),
    ],
)
def test_it_says_why_a_run_ended(error, state, message, tmp_path):
    with pytest.raises(type(error)), Status(tmp_path) as run:
        run.update(iteration=4)
        raise error
    found = read(tmp_path)
    assert (found["state"], found["message"], found["iteration"]) == (state, message, 4)
    with Status(tmp_path):  # the run is made again
        wait_until(lambda: read(tmp_path)["state"] == "running")
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_written_one_line_says_so_and_the_run_goes_on(tmp_path, caplog):
    with Status(tmp_path / "not there") as run:
        wait_until(lambda: caplog.records)
        time.sleep(0.1)
        run.update(iteration=1)
    (record,) = caplog.records
    assert "No such file or directory" in record.getMessage() and NAME in record.getMessage()


def test_a_file_system_that_hangs_holds_nobody_up(tmp_path, monkeypatch):
    hangs, released = threading.Event(), threading.Event()

    def hang(self):
        hangs.set()
        released.wait(30)

    monkeypatch.setattr(Status, "_write", hang)
    monkeypatch.setattr(status, "PATIENCE_S", 0.05)
    started = time.monotonic()
    with Status(tmp_path) as run:
        assert hangs.wait(5)
        for iteration in range(1000):
            run.update(iteration=iteration)
    assert time.monotonic() - started < 5
    released.set()
