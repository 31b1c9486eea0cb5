"""The `.npz` of a dataset: what is wrong with one is noticed before anything is made of it, and named."""

import io
import re
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from helpers.made_up_images import ARRAYS, ROOT, refused, write_npz

from smcda.data import dataset as datasets
from smcda.data import mnist as sources
from smcda.errors import BadInput


def test_a_users_own_file_needs_only_the_four_arrays(tmp_path):
    dataset = datasets.load(write_npz(tmp_path / "mine.npz", extra=np.array([{}], dtype=object)))
    assert dataset.name == "mine"
    assert re.fullmatch("[0-9a-f]{64}", dataset.sha256)
    np.testing.assert_array_equal(dataset.test_y, ARRAYS["test_y"])


@pytest.mark.parametrize("key", ["train_x", "train_y", "test_x", "test_y"])
def test_an_altered_file_is_named_with_both_checksums(key, tmp_path):
    recorded = datasets.load(write_npz(tmp_path / "own.npz")).sha256
    altered = ARRAYS[key].copy()
    altered.flat[0] ^= 1
    path = write_npz(tmp_path / "altered.npz", **{key: altered}, sha256=np.array(recorded))
    found = datasets.load(write_npz(tmp_path / "own.npz", **{key: altered})).sha256
    assert found != recorded
    refused(path, recorded, found, call=lambda: datasets.load(path))


def test_every_damage_to_the_bytes_is_noticed_and_named(tmp_path):
    path = tmp_path / "damaged.npz"
    datasets.save(path, datasets.load(write_npz(tmp_path / "own.npz")))
    whole = path.read_bytes()
    untouched = datasets.load(path).sha256
    for at in np.random.default_rng(8).integers(0, len(whole), 150):
        path.write_bytes(whole[:at])
        refused(path, call=lambda: datasets.load(path))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            assert datasets.load(path).sha256 == untouched  # a byte of the archive that means nothing
        except BadInput as error:
            assert str(path) in str(error) and "\n" not in str(error)


def test_the_checksum_that_failed_is_told(tmp_path):
    path = write_npz(tmp_path / "flipped.npz")
    at = path.read_bytes().index(ARRAYS["test_x"].tobytes())
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    refused(path, "CRC-32", "test_x", call=lambda: datasets.load(path))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train_y": None}, ["train_y"]),
        ({"train_x": ARRAYS["train_x"].astype(np.float32)}, ["train_x", "float32", "uint8"]),
        ({"test_y": ARRAYS["test_y"].astype(np.int64)}, ["test_y", "int64", "uint8"]),
        ({"train_x": ARRAYS["train_x"][:, :27]}, ["train_x", "(5, 27, 28)", "must agree"]),
        ({"train_x": ARRAYS["train_x"].reshape(5, 784)}, ["train_x", "(5, 784)"]),
        ({"test_y": ARRAYS["test_y"][:2]}, ["test_x", "(3, 28, 28)", "test_y", "(2,)"]),
        ({"test_y": ARRAYS["test_y"][:, None]}, ["test_y", "(3, 1)"]),
        ({"test_x": ARRAYS["test_x"][:0], "test_y": ARRAYS["test_y"][:0]}, ["test_x", "at least 1"]),
        ({"train_y": np.array([5, 0, 10, 1, 5], np.uint8)}, ["train_y", "label 10", "0 to 9"]),
        ({"train_x": np.array([{}] * 5)}, ["train_x is of type object", "encode it"]),
        ({"train_x": np.uint8(3)}, ["train_x", "()"]),
    ],
)
def test_arrays_that_break_a_rule_are_refused_with_the_rule(changes, words, tmp_path):
    path = write_npz(tmp_path / "own.npz", **changes)
    refused(path, *words, call=lambda: datasets.check_images(str(path), datasets.load(path)))


def one_array():
    buffer = io.BytesIO()
    np.save(buffer, ARRAYS["train_x"])
    return buffer.getvalue()


def text_in_an_archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for key in ARRAYS:
            archive.writestr(f"{key}.npy", "not an array")
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"\xff\xfetext", b"PK\x03\x04", one_array(), text_in_an_archive()])
def test_a_file_that_is_no_npz_is_named(content, tmp_path):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    refused(path, call=lambda: datasets.load(path))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    refused(
        tmp_path / "none.npz", "No such file", "smcda data", call=lambda: datasets.load(tmp_path / "none.npz")
    )
    refused(tmp_path, "it is not a file", call=lambda: datasets.load(tmp_path))


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.npz").mkdir()
    for out in (tmp_path / "file" / "out.npz", tmp_path / "folder.npz"):
        refused(out, "cannot be written", call=lambda out=out: sources.prepare("mnist", out, bundled=True))


@pytest.mark.system
def test_processes_that_prepare_the_same_file_at_once_do_not_spoil_it(tmp_path):
    out = tmp_path / "out.npz"
    code = "import sys; from pathlib import Path; from smcda.data import mnist as sources\n"
    code += "for _ in range(5): sources.prepare('mnist', Path(sys.argv[1]), bundled=True)\n"
    running = [subprocess.Popen([sys.executable, "-c", code, out], cwd=ROOT) for _ in range(2)]
    while any(process.poll() is None for process in running):
        if out.exists():
            datasets.load(out)
        time.sleep(0.02)
    assert [process.returncode for process in running] == [0, 0]
    assert list(tmp_path.iterdir()) == [out]
