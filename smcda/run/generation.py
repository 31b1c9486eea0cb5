"""One generation of a checkpoint: a folder that is whole and unaltered, or not used.

::

    generation-000007/arrays/         every array of the run, by Orbax
                      manifest.json   written last: identity, and SHA-256 of every other file and of itself

A generation is written under another name, flushed to disk and renamed, so that a killed process
leaves none half written; the checksums find what a broken disk or a careless hand did later. Nothing
that is read is ever executed: Orbax stores arrays by TensorStore and the rest is JSON, without pickle.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from smcda._io import flush, write_text

FORMAT = 1
MANIFEST = "manifest.json"
# What Orbax and TensorStore raise when the disk is full (the first two) or a file was forged.
_SAVE_FAILS = (OSError, ValueError)
_RESTORE_FAILS = (*_SAVE_FAILS, TypeError, KeyError, AttributeError, IndexError, RuntimeError, MemoryError)


class Unusable(Exception):
    """A generation can't be used; the message says why in one line."""


class SaveFailed(Exception):
    """A generation could not be written and nothing of it is left; the message says why in one line."""


def write(folder: Path, arrays: Any, content: dict[str, Any]) -> None:
    """Write a pytree of host arrays, and `content` into the manifest; raises `SaveFailed`."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    try:
        partial.mkdir(parents=True)
        with _orbax() as (orbax, checkpointer):
            checkpointer.save((partial / "arrays").absolute(), args=orbax.args.PyTreeSave(arrays))
        for parent, _, files in os.walk(partial):
            for path in (Path(parent), *(Path(parent, name) for name in files)):
                flush(path)
        content = content | {"format": FORMAT, "files": _checksums(partial)}
        text = json.dumps({"content": content, "sha256": _sha256_of(content)}, indent=1)
        write_text(partial / MANIFEST, text)
        partial.rename(folder)
        flush(folder.parent)
    except _SAVE_FAILS as error:
        raise SaveFailed(_reason(error)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The contents of the manifest, if it is whole and of this format; raises `Unusable`."""
    path = folder / MANIFEST
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Unusable(f"{MANIFEST} is not a file")
        manifest = json.loads(path.read_bytes())
        content = manifest["content"]
        altered = manifest["sha256"] != _sha256_of(content)
        kind = content["format"]
        malformed = not all(isinstance(content[name], dict) for name in ("identity", "files"))
        malformed = malformed or not isinstance(content["iteration"], int)
    except OSError as error:
        raise Unusable(_reason(error)) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Unusable(f"{MANIFEST} is torn") from error
    if altered:
        raise Unusable(f"{MANIFEST} was altered")
    if kind != FORMAT:
        raise Unusable(f"its format is {kind!r}, not {FORMAT}")
    if malformed:
        raise Unusable(f"{MANIFEST} lacks something")
    return content


def read(folder: Path, like: Any) -> Any:
    """The arrays, if all files are what the manifest says and the arrays are as in `like`.

    `like` is a pytree of arrays (or shapes) of the kinds that the run needs; raises `Unusable`.
    """
    recorded = read_manifest(folder)["files"]
    try:
        found = _checksums(folder)
    except OSError as error:
        raise Unusable(_reason(error)) from error
    damaged = sorted(name for name in {*recorded, *found} if recorded.get(name) != found.get(name))
    if damaged:
        raise Unusable(f"{damaged[0]} is not as it was written")

    source = (folder / "arrays").absolute()
    try:
        with _orbax() as (orbax, checkpointer):
            # Looked at before any array is read, so that nothing of a wrong size is allocated.
            _must_match(checkpointer.metadata(source).item_metadata.tree, like)
            as_numpy = jax.tree.map(lambda _: orbax.RestoreArgs(restore_type=np.ndarray), like)
            options = orbax.args.PyTreeRestore(item=like, restore_args=as_numpy)
            arrays = checkpointer.restore(source, args=options)
            _must_match(arrays, like)
    except _RESTORE_FAILS as error:
        raise Unusable(f"its arrays can't be read: {_reason(error)}") from error
    return arrays


@contextmanager
def _orbax() -> Iterator[tuple[Any, Any]]:
    """Orbax and a checkpointer of its; what it logs on a failure, pages of tracebacks, is raised as well."""
    import orbax.checkpoint as orbax  # takes a while, and most runs end before they need it

    _ignore_late_answers()
    log = logging.getLogger("absl")
    before, log.disabled = log.disabled, True
    try:
        with orbax.Checkpointer(orbax.PyTreeCheckpointHandler()) as checkpointer:
            yield orbax, checkpointer
    finally:
        log.disabled = before


@cache
def _ignore_late_answers() -> None:
    """Keep quiet about files that answer after Orbax has given up on the first that failed.

    By then its event loop is closed; Python prints a traceback of that, from a thread of TensorStore's,
    although the failure itself has been raised and told.
    """
    tell = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        late = isinstance(unraisable.exc_value, RuntimeError)
        if not (late and str(unraisable.exc_value) == "Event loop is closed"):
            tell(unraisable)

    sys.unraisablehook = hook


def _must_match(found: Any, like: Any) -> None:
    """Compare names, shapes and types of two trees, whatever their containers."""

    def kinds(tree: Any) -> set[tuple[str, tuple[int, ...], np.dtype]]:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return {
            (jax.tree_util.keystr(path, simple=True, separator="."), tuple(leaf.shape), np.dtype(leaf.dtype))
            for path, leaf in leaves
        }

    if kinds(found) != kinds(like):
        raise Unusable("its arrays are not those of this run")


def _checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file but the manifest, by its path inside."""

    def fail(error: OSError) -> None:
        raise error

    found = {}
    for parent, folders, files in os.walk(folder, onerror=fail):
        for path in (Path(parent, name) for name in (*folders, *files)):
            name, mode = str(path.relative_to(folder)), path.lstat().st_mode
            if stat.S_ISREG(mode) and name != MANIFEST:
                with path.open("rb") as file:
                    found[name] = hashlib.file_digest(file, "sha256").hexdigest()
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                # A link or a pipe was not written here; opening it could lead anywhere, or hang.
                found[name] = "not a file"
    return found


def _sha256_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _reason(error: BaseException) -> str:
    """One line: what the system said, and of which file."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(str(error).split()) or type(error).__name__
    if code := re.search(r"os_error_code='(\d+)'", text):  # what TensorStore makes of an OSError
        return os.strerror(int(code[1]))
    return text if len(text) <= 200 else f"{text[:200]}..."
