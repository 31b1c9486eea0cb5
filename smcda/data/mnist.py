"""Named datasets from verified canonical files.

The canonical form of MNIST and its relatives is four gzipped IDX files: a big-endian header
(two zero bytes, the type code 8 for ``uint8``, the number of dimensions, then each dimension
in four bytes) followed by the raw values. `prepare` finds these files in the first of

1. the subset that comes with the package (`bundled`), already cut from them;
2. a folder of the user's (`mirror`), which must then hold all four;
3. the download cache of TensorFlow Datasets (TFDS), filled from the network where it has gaps.

Every file must have the SHA-256 that TFDS registered for it, wherever it came from: TFDS itself
trusts whatever lies in its cache. Only its downloader and registry are used, not TensorFlow.
Images keep the order of the IDX file: batch k means the same images to everybody.
"""

import errno
import gzip
import hashlib
import math
import os
import struct
import threading
import zlib
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from smcda._io import exclusive
from smcda.data.dataset import Dataset, checked, load, save
from smcda.errors import BadInput

DATASETS = {
    "mnist": "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "fashion_mnist": "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "kmnist": "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
}
"""The address under which TFDS, which uses the same names, registered the four files of each dataset."""

FILES = {
    "train_x": "train-images-idx3-ubyte.gz",
    "train_y": "train-labels-idx1-ubyte.gz",
    "test_x": "t10k-images-idx3-ubyte.gz",
    "test_y": "t10k-labels-idx1-ubyte.gz",
}
"""The canonical file of each array."""

BUNDLED = Path(__file__).parent / "bundled"
SUBSETS = ("mnist", "fashion_mnist")
"""The datasets with a subset in that folder."""

ANSWER_SECONDS = 6.0  # a server that takes longer to begin its answer counts as out of reach


def prepare(
    name: str,
    out: Path,
    *,
    mirror: Path | None = None,
    cache: Path | None = None,
    bundled: bool = False,
    n_train: int | None = None,
    n_test: int | None = None,
) -> None:
    """Write the dataset `name` to `out`, from the first source that applies (see the module's text).

    With `n_train` or `n_test`, only the first so many images are kept.
    """
    if name not in DATASETS:
        raise BadInput(f"dataset {name!r} is unknown; choose one of {', '.join(DATASETS)}")
    if bundled and mirror is not None:
        raise BadInput(f"--bundled and --mirror {mirror} name two sources for {name}; give only one of them")
    if bundled and name not in SUBSETS:
        raise BadInput(f"{name} is not bundled; leave out --bundled (in config.yaml: source: full)")
    try:
        save(out, _first(_read(name, mirror, cache, bundled), n_train, n_test))
    except OSError as error:
        if error.errno in _BROKEN_DISK:
            raise
        raise BadInput(f"{out} cannot be written ({error.strerror}); choose another place") from error


# No fault of the place that was chosen: the same command is right once there is room.
_BROKEN_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def _read(name: str, mirror: Path | None, cache: Path | None, bundled: bool) -> Dataset:
    """Read a dataset from the first source that applies."""
    try:
        if bundled:
            return load(BUNDLED / f"{name}.npz")
        if mirror is not None:
            return read_mirror(name, mirror)
        return _read_files(name, _download(name, cache))
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error}; give another --mirror or --cache") from error


def _first(dataset: Dataset, n_train: int | None, n_test: int | None) -> Dataset:
    """Keep the first images of each part."""
    arrays = {}
    for part, wanted in (("train", n_train), ("test", n_test)):
        there = len(getattr(dataset, f"{part}_x"))
        if wanted is not None and not 1 <= wanted <= there:
            raise BadInput(f"--{part} is {wanted}, but {dataset.name} has {there}: choose from 1 to {there}")
        arrays |= {key: getattr(dataset, key)[:wanted] for key in (f"{part}_x", f"{part}_y")}
    return checked(dataset.name, dataset.name, arrays)


def read_mirror(name: str, mirror: Path) -> Dataset:
    """Read a whole dataset from ``<mirror>/<name>/``, which must hold all four canonical files."""
    if not mirror.is_dir():
        raise BadInput(f"--mirror {mirror} is not a folder; give the folder that contains {name}/")
    paths = {key: mirror / name / file for key, file in FILES.items()}
    missing = [path.name for path in paths.values() if not path.is_file()]
    if missing:
        raise BadInput(f"the mirror lacks {', '.join(missing)}; {mirror / name}/ must hold every file")
    return _read_files(name, paths)


def _read_files(name: str, paths: dict[str, Path]) -> Dataset:
    """Read a dataset from its canonical files, each held against its registered checksum."""
    arrays, registered = {}, _registered(name)
    for key, path in paths.items():
        content, url = path.read_bytes(), DATASETS[name] + FILES[key]
        expected, found = registered[url].checksum, hashlib.sha256(content).hexdigest()
        if found != expected:
            raise BadInput(f"{path} has sha256 {found}, not the registered {expected}; replace it by {url}")
        arrays[key] = _parse_idx(path, content, n_dimensions=1 if key.endswith("_y") else 3)
    return checked(str(paths["train_x"].parent), name, arrays)


def _parse_idx(path: Path, content: bytes, n_dimensions: int) -> UInt8[np.ndarray, "..."]:
    """Return the array in a gzipped IDX file whose magic number and sizes agree with what follows."""
    try:
        raw = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} is not a whole gzip file ({error}); fetch it again") from error
    magic, offset = bytes([0, 0, 8, n_dimensions]), 4 + 4 * n_dimensions
    if raw[:4] != magic or len(raw) < offset:
        raise BadInput(
            f"{path} has header {raw[:offset].hex()}, not {offset} bytes from {magic.hex()}; fetch it again"
        )
    shape = struct.unpack(f">{n_dimensions}I", raw[4:offset])
    if len(raw) - offset != math.prod(shape):
        raise BadInput(f"{path} claims shape {shape} but holds {len(raw) - offset} values; fetch it again")
    return np.frombuffer(raw, np.uint8, offset=offset).reshape(shape)


def _registered(name: str) -> dict[str, Any]:
    """Return TFDS's registered size and checksum of every file of a dataset, by address."""
    return _tfds(name).builder_cls(name).url_infos or {}


def _tfds(name: str) -> Any:
    """TensorFlow Datasets, which is heavy, and of use for the full data only."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise BadInput(
            f"files and checksums of {name} come from tensorflow-datasets, which is not installed: "
            "pip install 'smcda[workflow]', or take --bundled"
        ) from error
    return tfds


def _download(name: str, cache: Path | None) -> dict[str, Path]:
    """Return where TFDS keeps the four files, after downloading those that were not there yet."""
    tfds = _tfds(name)
    import requests
    from tensorflow_datasets.core.constants import DATA_DIR
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

    # A server is asked whether it is there before TFDS insists; what is cached needs no server.
    class Manager(tfds.download.DownloadManager):
        def _download(self, resource: Any) -> Any:
            _must_answer(resource.url)
            return super()._download(resource)

    url = DATASETS[name]
    remedy = f"put {', '.join(FILES.values())} into DIR/{name}/ and give --mirror DIR"
    cache = cache or Path(DATA_DIR) / "downloads"
    options = {"url_infos": _registered(name), "force_checksums_validation": True}
    tfds.disable_progress_bar()
    try:
        # Nothing will be extracted; the default folder for it would be created.
        manager = Manager(download_dir=cache, extract_dir=cache, dataset_name=name, **options)
        # TFDS does not expect others to fill the same cache; one that is complete may be read-only.
        writable = not cache.exists() or os.access(cache, os.W_OK)
        with exclusive(cache / ".smcda.lock", f"downloading to {cache}") if writable else nullcontext():
            # One after the other: a failure leaves no thread behind that the process would wait for.
            return {key: Path(manager.download(url + file)) for key, file in FILES.items()}
    except NonMatchingChecksumError as error:
        raise BadInput(f"{name} was downloaded altered ({error}); {remedy}") from error
    except (requests.RequestException, tfds.download.DownloadError, TimeoutError) as error:
        raise BadInput(f"{url} cannot be reached ({type(error).__name__}); {remedy}") from error


def _must_answer(url: str) -> None:
    """Raise `requests.RequestException` or `TimeoutError` unless `url` soon begins to answer.

    TFDS's ten retries without a timeout suit a bad network, but are minutes of silence for none. A
    daemon thread asks, because looking up a host name cannot be timed out, only left behind.
    """
    import requests

    answer: Future[None] = Future()

    def ask() -> None:
        try:
            with requests.get(url, stream=True, timeout=ANSWER_SECONDS) as response:
                response.raise_for_status()
            answer.set_result(None)
        except requests.RequestException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    answer.result(timeout=ANSWER_SECONDS)
