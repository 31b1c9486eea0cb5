"""Images made up for the tests of data: arrays, IDX files, a dataset of them, and what a refusal must be."""

import gzip
import socket
import struct
from pathlib import Path

import numpy as np
import pytest

from smcda.errors import BadInput

ROOT = Path(__file__).parents[2]

RNG = np.random.default_rng(7)
ARRAYS = {
    "train_x": RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8),
    "train_y": np.array([5, 0, 9, 1, 5], np.uint8),
    "test_x": RNG.integers(0, 256, (3, 28, 28), dtype=np.uint8),
    "test_y": np.array([7, 2, 2], np.uint8),
}


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.tobytes(), mtime=0)


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def refused(*words, call):
    """The message of the `BadInput` that `call` must raise: one line with all of `words` in it."""
    with pytest.raises(BadInput) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert str(word) in message
    return message


def write_npz(path, **changes):
    contents = {key: value for key, value in {**ARRAYS, **changes}.items() if value is not None}
    np.savez(path, **contents)
    return path
