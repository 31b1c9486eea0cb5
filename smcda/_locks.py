"""Locks that die with their holder and leave nothing behind.

A lock is ``flock`` on a small empty file. The kernel lets go of it when the process ends, however it
ends, so a lock never has to be removed by hand. The file is removed by whoever holds the lock; a
process that had opened it before finds, once it gets the lock, that the name now means another file
or none, and tries again. So at most one process is ever inside, although the file comes and goes.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from smcda.errors import notice

SECONDS_BETWEEN_TRIES = 0.1
# A link is never followed: what is locked and removed is beside the work, and nowhere else.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def locked(path: Path, doing: str, while_waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file `path`; wait, after one line that says for what, while another process does.

    `while_waiting` is called between tries and may raise to give up. Folders that had to be made for the
    file are removed again if nothing else came into them.
    """
    made = [folder for folder in path.absolute().parents if not folder.exists()]
    try:
        descriptor = _take(path, doing, while_waiting)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)
    finally:
        with suppress(OSError):  # the first that is not empty ends it
            for folder in made:
                folder.rmdir()


def _take(path: Path, doing: str, while_waiting: Callable[[], None]) -> int:
    """Open and lock the file that is at `path`, whatever other processes do there meanwhile."""
    told = False
    while True:
        descriptor = _open(path)
        # Some cluster file systems have no locks: better to work unprotected there than not at all.
        free = try_lock(descriptor, if_unsupported=True)
        if free and is_at(descriptor, path):
            return descriptor
        os.close(descriptor)
        if not free:
            if not told:
                notice(f"waiting for another process that is {doing}")
                told = True
            while_waiting()
            time.sleep(SECONDS_BETWEEN_TRIES)


def try_lock(descriptor: int, *, if_unsupported: bool) -> bool:
    """Lock an open file, and say whether that went well or another process has it locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        return if_unsupported
    return True


def remove_unheld(path: Path) -> None:
    """Remove a file that its maker would hold locked if it were still alive."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # gone already, or not ours to touch
    if try_lock(descriptor, if_unsupported=False) and is_at(descriptor, path):
        path.unlink()
    os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    """Open the lock file, making what is missing; another process may remove a folder just then."""
    for _ in range(20):
        with suppress(FileNotFoundError):
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, _FLAGS, 0o666)
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, _FLAGS, 0o666)
