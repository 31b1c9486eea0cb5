"""One ``.npz`` of arrays: how a dataset is kept on disk, and read back.

It holds ``train_x train_y`` and, where there are test data, ``test_x test_y``, of any shapes and numeric
types. Files that `smcda data` writes also hold the dataset's name and a SHA-256 of the contents, which `load`
computes again: an altered file is never sampled from.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smcda._io import atomic_write
from smcda.errors import BadInput


class Dataset(NamedTuple):
    """Inputs and outputs as they are on disk; `sha256` identifies the contents."""

    name: str
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray | None
    test_y: np.ndarray | None
    sha256: str

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and outputs to learn from."""
        return self.train_x, self.train_y

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Inputs and outputs to be tested on, if there are any."""
        return None if self.test_x is None or self.test_y is None else (self.test_x, self.test_y)


ARRAYS = ("train_x", "train_y", "test_x", "test_y")
"""In the order in which name, type, shape and bytes of each enter the checksum."""


def save(path: Path, dataset: Dataset) -> None:
    """Write `dataset` to `path`, whole or not at all; equal contents give equal bytes."""
    contents: dict[str, Any] = {key: getattr(dataset, key) for key in ARRAYS}
    contents |= {"name": np.array(dataset.name), "sha256": np.array(dataset.sha256)}
    # An open file, because numpy would append .npz to a name without it.
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{key: value for key, value in contents.items() if value is not None})


def load(path: Path) -> Dataset:
    """Read and check an ``.npz`` written by `smcda data`, or a user's own with just the arrays."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a file")  # opening a pipe could wait forever
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is one array, not an archive of several")
            keys = [key for key in (*ARRAYS, "name", "sha256") if key in archive]
            found = {key: _array(path, key, archive) for key in keys}
    except BadInput:
        raise
    except Exception as error:  # numpy and zipfile raise nearly anything on damaged or foreign files
        # NumPy's advice to unpickle a file is no advice of ours.
        reason = "it is not an archive of arrays" if "pickle" in str(error) else error
        raise BadInput(
            f"{path} cannot be read as .npz: {reason}; write it by `smcda data`, or numpy.savez"
        ) from error
    missing = [key for key in ARRAYS[:2] if key not in found]
    if missing or ("test_x" in found) != ("test_y" in found):
        missing = missing or [key for key in ARRAYS if key not in found]
        raise BadInput(
            f"{path} lacks the array {', '.join(missing)}; it must hold train_x and train_y, and may hold "
            "both test_x and test_y"
        )
    name = " ".join(str(found.get("name", path.stem)).split())
    dataset = checked(str(path), name, {key: found[key] for key in ARRAYS if key in found})
    recorded = str(found.get("sha256", dataset.sha256))
    if recorded != dataset.sha256:
        raise BadInput(f"{path} was altered: sha256 {dataset.sha256}, recorded {recorded}; write it again")
    return dataset


def _array(path: Path, key: str, archive: np.lib.npyio.NpzFile) -> np.ndarray:
    try:
        return np.asarray(archive[key])
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
        raise BadInput(f"{path}: {key} is of type object, but must be numbers: encode it") from error


def checked(where: str, name: str, arrays: dict[str, np.ndarray]) -> Dataset:
    """The arrays as a `Dataset`; refuses test examples that are not like those to learn from."""
    for key, array in arrays.items():
        found = f"{key} is {array.dtype} {array.shape}"
        if array.ndim == 0 or len(array) == 0:
            raise BadInput(f"{where}: {found}, but must have a row per example, and at least 1")
        inputs = key.replace("_y", "_x")
        if len(array) != len(arrays[inputs]):
            found = f"{inputs} is {arrays[inputs].dtype} {arrays[inputs].shape}, {found}"
            raise BadInput(f"{where}: {found}; there must be as many of each")
    for key in [key for key in arrays if key.startswith("test")]:
        known = key.replace("test", "train")
        array, like = arrays[key], arrays[known]
        if array.shape[1:] != like.shape[1:] or array.dtype != like.dtype:
            found = f"{key} is {array.dtype} {array.shape}, {known} {like.dtype} {like.shape}"
            raise BadInput(f"{where}: {found}; type and shape of an example must agree")
    return Dataset(name, **{key: arrays.get(key) for key in ARRAYS}, sha256=sha256(arrays))  # pyright: ignore[reportArgumentType]


def sha256(arrays: dict[str, np.ndarray]) -> str:
    """Identify arrays by their names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for key, array in arrays.items():
        kind = "" if array.dtype == np.uint8 else f"{array.dtype} "
        digest.update(f"{key} {kind}{array.shape}\n".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def check_images(where: str, dataset: Dataset) -> Dataset:
    """The dataset if it is of the MNIST family, labels as uint8, else raises `BadInput`."""
    arrays = {}
    for split, pair in (("train", dataset.train), ("test", dataset.test)):
        if pair is None:
            continue
        x, y = pair
        if (
            x.dtype != np.uint8
            or x.shape != (y.size, 28, 28)
            or not np.issubdtype(y.dtype, np.integer)
            or y.ndim != 1
        ):
            found = f"{split}_x is {x.dtype} {x.shape} and {split}_y {y.dtype} {y.shape}"
            raise BadInput(f"{where}: {found}; they must be uint8 (n, 28, 28) and whole numbers (n,)")
        if y.min() < 0 or y.max() > 9:
            bad = y.min() if y.min() < 0 else y.max()
            raise BadInput(f"{where}: {split}_y contains the label {bad}; labels must be 0 to 9")
        arrays[f"{split}_y"] = y.astype(np.uint8)
    return dataset._replace(**arrays)
