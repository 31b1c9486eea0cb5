"""One ``.npz`` of ``uint8`` arrays: how a dataset is kept on disk, and read back.

It holds ``train_x train_y test_x test_y``, the dataset's name and a SHA-256 of the contents, which `load`
computes again: an altered file is never sampled from. `smcda.data.mnist` writes such files.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from smcda._io import atomic_write
from smcda.errors import BadInput


class Dataset(NamedTuple):
    """Images and their classes as they are on disk; `sha256` identifies the contents."""

    name: str
    train_x: UInt8[np.ndarray, "train 28 28"]
    train_y: UInt8[np.ndarray, " train"]
    test_x: UInt8[np.ndarray, "test 28 28"]
    test_y: UInt8[np.ndarray, " test"]
    sha256: str


ARRAYS = ("train_x", "train_y", "test_x", "test_y")
"""In the order in which name, shape and bytes of each enter the checksum."""


def save(path: Path, dataset: Dataset) -> None:
    """Write `dataset` to `path`, whole or not at all; equal contents give equal bytes."""
    contents: dict[str, Any] = {key: getattr(dataset, key) for key in ARRAYS}
    contents |= {"name": np.array(dataset.name), "sha256": np.array(dataset.sha256)}
    # An open file, because numpy would append .npz to a name without it.
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **contents)


def load(path: Path) -> Dataset:
    """Read and check an ``.npz`` written by `prepare`, or a user's own with just the four arrays."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a file")  # opening a pipe could wait forever
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is one array, not an archive of several")
            keys = [key for key in (*ARRAYS, "name", "sha256") if key in archive]
            found = {key: np.asarray(archive[key]) for key in keys}
    except Exception as error:  # numpy and zipfile raise nearly anything on damaged or foreign files
        raise BadInput(f"{path} cannot be read as .npz: {error}; write it by `smcda data`") from error
    missing = [key for key in ARRAYS if key not in found]
    if missing:
        raise BadInput(f"{path} lacks the array {', '.join(missing)}; it must hold {', '.join(ARRAYS)}")
    name = " ".join(str(found.get("name", path.stem)).split())
    dataset = checked(str(path), name, {key: found[key] for key in ARRAYS})
    recorded = str(found.get("sha256", dataset.sha256))
    if recorded != dataset.sha256:
        raise BadInput(f"{path} was altered: sha256 {dataset.sha256}, recorded {recorded}; write it again")
    return dataset


def checked(where: str, name: str, arrays: dict[str, np.ndarray]) -> Dataset:
    """Return the arrays as a `Dataset` if they are what the package trusts them to be."""
    for split in ("train", "test"):
        x, y = arrays[f"{split}_x"], arrays[f"{split}_y"]
        uint8 = x.dtype == np.uint8 and y.dtype == np.uint8
        if not uint8 or x.shape != (y.size, 28, 28) or y.ndim != 1 or y.size == 0:
            found = f"{split}_x is {x.dtype} {x.shape} and {split}_y {y.dtype} {y.shape}"
            raise BadInput(f"{where}: {found}; they must be uint8 (n, 28, 28) and uint8 (n,), n at least 1")
        if y.max() > 9:
            raise BadInput(f"{where}: {split}_y contains the label {y.max()}; labels must be 0 to 9")
    digest = hashlib.sha256()
    for key in ARRAYS:
        digest.update(f"{key} {arrays[key].shape}\n".encode() + arrays[key].tobytes())
    return Dataset(name, **arrays, sha256=digest.hexdigest())
