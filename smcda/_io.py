"""Files that appear whole or not at all, and locks that die with their holder.

A result is written beside its final place, synced to disk and then renamed, which POSIX makes atomic: a
reader sees the old file, the new file or none, never half of one. A temporary file's name tells who writes
it, so that the next writer can remove what a killed process left.

A lock is ``flock`` on an empty file (by filelock). The kernel releases it when the process ends, however it
ends. The file itself stays, because removing it would let two processes lock two files of one name.
"""

import errno
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from glob import escape
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

POLL_SECONDS = 0.1
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
logger = logging.getLogger("smcda")
Attempted = TypeVar("Attempted")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, otherwise nothing does.

    A failure of the system, such as a full disk, is raised as an `OSError` that names `path`.
    """
    path = Path(path)
    prefix = f".{path.name}.{socket.gethostname()}-"
    temporary = path.parent / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}{path.suffix}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent, prefix)
        temporary.touch(exist_ok=False)
        try:
            yield temporary
            fsync(temporary)
            temporary.replace(path)
            fsync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        # A failed write names no file, a failed open the temporary one.
        if error.filename is None or Path(error.filename).name == temporary.name:
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def fsync(path: Path) -> None:
    """Ask the operating system to put a file, or a folder's entries, on the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive(path: Path, doing: str) -> Iterator[None]:
    """Hold the lock file `path`; while another process does, say once for what we wait, and wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_for(lambda: try_lock(path), f"waiting for another process that is {doing}"):
        yield


def wait_for(attempt: Callable[[], Attempted | None], message: str) -> Attempted:
    """What `attempt` returns as soon as that is not None; `message` says once for what we wait."""
    if (found := attempt()) is None:
        logger.warning(message)
        while (found := attempt()) is None:
            time.sleep(POLL_SECONDS)
    return found


def try_lock(path: Path) -> AbstractContextManager[Any] | None:
    """Lock the file `path` until the returned context is left; None if another process holds it."""
    try:
        # A soft lock would outlive a killed holder.
        return FileLock(path, fallback_to_soft=False).acquire(blocking=False)
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        # Some cluster file systems have no locks: better to work unprotected there than not at all.
        return nullcontext()


def _remove_stale(folder: Path, prefix: str) -> None:
    """Remove temporary files whose writer, a process of this machine, is dead."""
    for path in folder.glob(f"{escape(prefix)}*"):
        try:
            os.kill(int(path.name.removeprefix(prefix).partition("-")[0]), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except (PermissionError, ValueError):
            pass  # alive, but another user's; or a name that was not given here
