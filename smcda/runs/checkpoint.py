"""A run's checkpoints: the two newest steps, found again by what determines the run's result.

::

    <parent>/<digest of fingerprint and output folder>/<iteration>/arrays/     every array of the run
                                                                   manifest/   JSON: fingerprint, and
                                                                               SHA-256 of every array

Orbax's `CheckpointManager` writes a step under another name and renames it, drops old steps and removes what
a killed process left. This module adds whose a checkpoint is and whether it is intact. The newest step that
is, and has this run's fingerprint, is used; others are named and passed over. All are removed when the run
has written its results. Nothing that is read is ever executed: TensorStore arrays and JSON, no pickle.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smcda._io import fsync
from smcda.runs.fingerprint import differences, digest

MAX_TO_KEEP = 2
MANIFEST = Path("manifest") / "metadata"
logger = logging.getLogger("smcda")


class InvalidCheckpoint(Exception):
    """A checkpoint was altered, or is another run's; the message says which in one line."""


class Checkpoints:
    """The checkpoints of one run, whose caller holds the lock of the output folder to keep others out."""

    def __init__(self, parent: Path, fingerprint: dict[str, Any], out: Path) -> None:
        """Read and make nothing yet. `out` lets a later run to the same place know what this one was."""
        # Relative, so that a build that is moved finds its checkpoints.
        self._manifest = {"fingerprint": fingerprint, "out": os.path.relpath(out, parent)}
        self.folder = parent.absolute() / digest(self._manifest)
        self.saved_at: int | None = None
        """The iteration of the newest checkpoint that is known to be good."""

    def save(self, iteration: int, arrays: Any) -> int | None:
        """Save a pytree of host arrays; a failure is reported in one line. Returns `saved_at`."""
        try:
            # Newer than the last good one: it could not be used, and would count as the newest.
            for step in _steps(self.folder):
                if self.saved_at is None or step > self.saved_at:
                    shutil.rmtree(self.folder / str(step))
            manifest = self._manifest | {"kinds": _kinds(arrays), "sha256": _checksums(arrays)}
            with suppress(OSError):  # a run that ends may remove the empty parent just now: Orbax tries again
                self.folder.mkdir(parents=True, exist_ok=True)
            with self._manager() as (args, manager):
                items = args.Composite(arrays=args.StandardSave(arrays), manifest=args.JsonSave(manifest))
                manager.save(iteration, args=items, force=True)
            _fsync_all(self.folder / str(iteration))
            self.saved_at = iteration
        except Exception as error:  # whatever Orbax or the system says, sampling must go on
            logger.warning("the checkpoint of iteration %d could not be saved: %s", iteration, _reason(error))
            self._remove_partial()
        return self.saved_at

    def restore(self, like: Any) -> Any | None:
        """Arrays of the newest checkpoint that can be used, or None for a start from scratch.

        `like` is a tree of arrays of the shapes and types that the run needs.
        """
        steps = _steps(self.folder)
        for step in reversed(steps):
            try:
                arrays = self._read(step, like)
            except Exception as error:  # Orbax, TensorStore and JSON raise anything on damaged files
                logger.warning("checkpoint %s is not used: %s", self.folder / str(step), _reason(error))
            else:
                self.saved_at = step
                return arrays
        if steps:
            logger.warning("no checkpoint in %s can be used: starting from scratch", self.folder)
        else:
            self._name_others()
        return None

    def remove(self) -> None:
        """Remove all checkpoints: the results are there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # another run's checkpoints are in it
            self.folder.parent.rmdir()

    def _read(self, step: int, like: Any) -> Any:
        """The arrays of a step, if they are this run's and as they were saved; raises anything if not."""
        manifest = _manifest_of(self.folder / str(step))
        if difference := self._difference(manifest):
            raise InvalidCheckpoint(difference)
        # Compared before any array is read, so that nothing of a wrong size is allocated.
        if manifest["kinds"] != _kinds(like):
            raise InvalidCheckpoint("its arrays are not those of this run")
        with self._manager() as (args, manager):
            arrays = manager.restore(step, args=args.Composite(arrays=args.StandardRestore(like))).arrays
        for name, sha256 in _checksums(arrays).items():
            if sha256 != manifest["sha256"][name]:
                raise InvalidCheckpoint(f"array {name} is not as it was saved")
        return arrays

    def _difference(self, manifest: dict[str, Any]) -> str:
        """What makes a checkpoint another run's, in words; nothing if it is this one's."""
        names = differences(self._manifest["fingerprint"], manifest["fingerprint"])
        return f"it was made with another {', '.join(names)}" if names else ""

    @contextmanager
    def _manager(self) -> Iterator[tuple[Any, Any]]:
        """Orbax's arguments and manager of this folder; it removes partial steps when it is made."""
        import orbax.checkpoint as orbax  # takes a while, and most runs end before they need it

        options = orbax.CheckpointManagerOptions(
            max_to_keep=MAX_TO_KEEP,
            cleanup_tmp_directories=True,
            enable_async_checkpointing=False,
            save_root_metadata=False,
        )
        _silence_orbax_teardown()
        # What it logs on a failure, pages of tracebacks, is raised as well.
        log = logging.getLogger("absl")
        before, log.disabled = log.disabled, True
        try:
            with orbax.CheckpointManager(self.folder, options=options) as manager:
                yield orbax.args, manager
        finally:
            log.disabled = before

    def _remove_partial(self) -> None:
        """Leave nothing of a failed save."""
        for path in self.folder.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(path, ignore_errors=True)
        for folder in (self.folder, self.folder.parent):
            with suppress(OSError):  # there are checkpoints in it
                folder.rmdir()

    def _name_others(self) -> None:
        """Name the newest checkpoint of each run that had the same output folder and another fingerprint."""
        for folder in sorted(self.folder.parent.glob("*")):
            for step in _steps(folder)[-1:]:
                with suppress(OSError, ValueError, TypeError, KeyError):  # damaged: we can't tell whose it is
                    manifest = _manifest_of(folder / str(step))
                    difference = self._difference(manifest)
                    if difference and manifest["out"] == self._manifest["out"]:
                        logger.warning("checkpoint %s is not used: %s", folder / str(step), difference)


def _steps(folder: Path) -> list[int]:
    """Iterations of which there is a checkpoint, oldest first; found without importing Orbax."""
    entries = folder.iterdir() if folder.is_dir() else ()
    return sorted(int(entry.name) for entry in entries if entry.name.isdecimal())


def _manifest_of(step: Path) -> dict[str, Any]:
    return json.loads((step / MANIFEST).read_bytes())


def _kinds(arrays: Any) -> dict[str, str]:
    return {name: f"{array.dtype} {array.shape}" for name, array in _by_name(arrays)}


def _checksums(arrays: Any) -> dict[str, str]:
    return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in _by_name(arrays)}


def _by_name(arrays: Any) -> list[tuple[str, np.ndarray]]:
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def _fsync_all(folder: Path) -> None:
    """Put a step on the disk before the next one replaces the step that is there."""
    for path in (*folder.rglob("*"), folder, folder.parent):
        fsync(path)


@cache
def _silence_orbax_teardown() -> None:
    """Ignore arrays that fail after Orbax has given up on the first, which is what is raised and reported.

    By then its event loop is closed, and Python prints a traceback for each of them.
    """
    report = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            report(unraisable)

    sys.unraisablehook = hook
    logging.getLogger("asyncio").addFilter(lambda record: "tensorstore" not in record.getMessage())


def _reason(error: BaseException) -> str:
    """One line: what the system said, and of which file."""
    if isinstance(error, InvalidCheckpoint):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if code := re.search(r"os_error_code='(\d+)'", text):  # what TensorStore makes of an OSError
        return os.strerror(int(code[1]))
    return text if len(text) <= 200 else f"{text[:200]}..."
