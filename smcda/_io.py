"""Files that appear whole or not at all.

A result is written beside its final place, flushed to disk and then renamed, which POSIX
makes atomic: a reader sees the old file, the new file or none, never half of one. What a killed
process left beside it is known by nobody holding its lock, and removed by the next who writes there.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from smcda._locks import is_at, remove_unheld, try_lock


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, otherwise nothing does.

    A failure of the system, such as a full disk, is raised as an `OSError` that names `path`.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        descriptor, temporary = _claim(path)
        try:
            yield temporary
            flush(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
            flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(descriptor)
    except OSError as error:
        # A failed write names no file, a failed open the temporary one.
        if error.filename is None or Path(error.filename).name.startswith(f".{path.name}."):
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def user_cache() -> Path:
    """Where compiled programs are kept for the next run, unless the user says otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "smcda" / "compiled"


def flush(path: Path) -> None:
    """Ask the operating system to put a file, or a folder's entries, on the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(path: Path) -> tuple[int, Path]:
    """Make a temporary file and lock it, which tells it from the leftover of a killed process."""
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        if try_lock(descriptor, if_unsupported=True) and is_at(descriptor, Path(name)):
            return descriptor, Path(name)
        os.close(descriptor)  # taken for a leftover, and removed, before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of `path` that no living process has locked."""
    for leftover in path.parent.glob(f".{escape(path.name)}.????????{escape(path.suffix)}"):
        remove_unheld(leftover)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
