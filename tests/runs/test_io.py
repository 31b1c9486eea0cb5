"""Files appear whole or not at all, and a lock lets in one process at a time."""

import errno
import fcntl
import os
import stat
import subprocess
import sys

import pytest

from smcda._io import atomic_write, exclusive, try_lock, write_text
from smcda.errors import configure_logging


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_inside_leaves_what_was_there_and_nothing_else(tmp_path, old, failure):
    path = tmp_path / "result.json"
    if old is not None:
        path.write_text(old)
    with pytest.raises(failure), atomic_write(path) as temporary:
        temporary.write_text("half of")
        raise failure
    assert [file.name for file in tmp_path.iterdir()] == ([] if old is None else ["result.json"])
    assert old is None or path.read_text() == old


@pytest.mark.parametrize("old", [None, "something old and longer"])
def test_contents_appear_only_when_they_are_whole(tmp_path, old):
    path = tmp_path / "result.csv"
    if old is not None:
        path.write_text(old)
    with atomic_write(path) as temporary:
        temporary.write_text("new, ")
        with temporary.open("a") as file:
            file.write("and whole")
        assert (path.read_text() if path.exists() else None) == old
    assert path.read_text() == "new, and whole"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_file_is_beside_the_final_one_and_has_its_suffix(tmp_path):
    with atomic_write(tmp_path / "a.npz") as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".npz"


def test_missing_folders_are_made_and_text_is_utf8(tmp_path):
    path = tmp_path / "deep" / "er" / "note.txt"
    write_text(path, "κ = 500\n")
    assert path.read_bytes() == b"\xce\xba = 500\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0, 0o666)])
def test_permissions_follow_the_umask_and_leave_it_as_it_was(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "file", "")
        after = os.umask(umask)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert after == umask


def test_a_failure_of_the_system_names_the_final_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as failed:
        write_text(tmp_path / "file", "")
    assert failed.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_path_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as first:
        first.write_text("first")
        with atomic_write(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def python(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


HOLD = """
import sys, time
from pathlib import Path
from smcda._io import atomic_write, exclusive
folder = Path(sys.argv[1])
with exclusive(folder / ".lock", "holding"), atomic_write(folder / "result.json") as path:
    path.write_text("half")
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.system
def test_a_killed_process_releases_its_lock_and_the_next_writer_removes_its_temporary_file(tmp_path):
    process = python(HOLD, tmp_path)
    assert process.stdout.readline() == "held\n"
    assert try_lock(tmp_path / ".lock") is None
    write_text(tmp_path / "result.json", "other")
    assert len(list(tmp_path.iterdir())) == 3  # what a living process writes is not touched
    process.kill()
    process.communicate()
    with try_lock(tmp_path / ".lock"):
        write_text(tmp_path / "result.json", "whole")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".lock", "result.json"]
    assert (tmp_path / "result.json").read_text() == "whole"


COUNT = """
import sys
from pathlib import Path
from smcda._io import exclusive
folder = Path(sys.argv[1])
for _ in range(30):
    with exclusive(folder / "new" / ".lock", "counting"):
        number = int((folder / "count").read_text())
        (folder / "count").write_text(str(number + 1))
"""


@pytest.mark.system
def test_a_lock_lets_in_one_process_at_a_time(tmp_path):
    (tmp_path / "count").write_text("0")
    processes = [python(COUNT, tmp_path) for _ in range(3)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert (tmp_path / "count").read_text() == "90"


def test_waiting_is_announced_in_one_line(tmp_path, monkeypatch, capfd):
    configure_logging()
    held = try_lock(tmp_path / ".lock")
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            held.__exit__(None, None, None)

    monkeypatch.setattr("time.sleep", sleep)
    with exclusive(tmp_path / ".lock", "making results"):
        pass
    assert len(naps) == 3
    assert capfd.readouterr().err == "smcda: waiting for another process that is making results\n"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError), exclusive(tmp_path / ".lock", "testing"):
        pass
    assert (tmp_path / "victim").read_text() == "kept"


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_is_used_unprotected(code, tmp_path, monkeypatch):
    def unsupported(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    if code == errno.EIO:  # a broken one is not
        with pytest.raises(OSError, match="Input/output error"):
            try_lock(tmp_path / ".lock")
    else:
        with exclusive(tmp_path / ".lock", "testing"), exclusive(tmp_path / ".lock", "testing"):
            pass
        with try_lock(tmp_path / ".lock"):  # a soft lock that stayed would be found
            pass
