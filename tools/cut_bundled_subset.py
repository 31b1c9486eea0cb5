"""Cut the subset that comes with the package from the canonical files of every dataset.

From each bundled dataset the first 200 training and the first 100 test images of each of the ten
classes, in the order of the IDX files: balanced, the same for everybody, and 2,000 and 1,000
images in all. The canonical files are verified as `smcda data` verifies them, and running this
again writes the same bytes.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from smcda.data import dataset as datasets
from smcda.data import mnist as sources
from smcda.errors import SmcdaError

PER_CLASS = {"train": 200, "test": 100}


def first_of_each_class(labels: UInt8[np.ndarray, " image"], n: int) -> Int[np.ndarray, " chosen"]:
    """Return, in ascending order, where the first `n` images of each class are."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:n] for label in range(10)]))


def cut(whole: datasets.Dataset) -> datasets.Dataset:
    """Return the balanced subset of a dataset, checked like any other."""
    train = first_of_each_class(whole.train_y, PER_CLASS["train"])
    test = first_of_each_class(whole.test_y, PER_CLASS["test"])
    arrays = {
        "train_x": whole.train_x[train],
        "train_y": whole.train_y[train],
        "test_x": whole.test_x[test],
        "test_y": whole.test_y[test],
    }
    return datasets.checked(f"the subset of {whole.name}", whole.name, arrays)


def main() -> int:
    """Write one file a dataset and say how large it became."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mirror", type=Path, required=True, help="folder with <dataset>/*.gz")
    parser.add_argument("--out", type=Path, default=sources.BUNDLED, help="folder to write to")
    arguments = parser.parse_args()
    try:
        for name in sources.SUBSETS:
            path = arguments.out / f"{name}.npz"
            datasets.save(path, cut(sources.read_mirror(name, arguments.mirror)))
            print(f"{path}: {path.stat().st_size:,} bytes, sha256 {datasets.load(path).sha256}")
    except SmcdaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
