"""Datasets: only verified contents come in, every failure is one line that says what to do."""

import gzip
import hashlib
import http.server
import io
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from smcda import datasets
from smcda.errors import BadInput

ROOT = Path(__file__).parents[1]
FULL = ROOT.parent / "shared" / "data"
needs_full_data = pytest.mark.skipif(not FULL.is_dir(), reason="the full data are not on this machine")

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


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A made-up dataset `tiny`, complete in a mirror and registered with its true checksums."""
    from tensorflow_datasets.core.download.checksums import compute_url_info

    folder = tmp_path / "mirror" / "tiny"
    folder.mkdir(parents=True)
    for key, file in datasets.FILES.items():
        (folder / file).write_bytes(idx(ARRAYS[key]))
    infos = {file: compute_url_info(folder / file) for file in datasets.FILES.values()}
    url = f"http://127.0.0.1:{closed_port()}/"
    monkeypatch.setitem(datasets.DATASETS, "tiny", datasets.Source("tiny", url))
    monkeypatch.setattr(
        datasets, "_registered", lambda source: {source.url + file: info for file, info in infos.items()}
    )
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder.parent


@pytest.fixture
def server(mirror, monkeypatch):
    """An HTTP server that has the files of `tiny` at their address; it notes which were asked for."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(mirror / "tiny"))

        def log_message(self, *args):
            asked.add(self.path)

    asked = set()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{running.server_port}/"
        monkeypatch.setitem(datasets.DATASETS, "tiny", datasets.Source("tiny", url))
        running.asked = asked
        yield running
        running.shutdown()


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


# --- what comes with the package, and the full data ---------------------------------------


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_bundled_subset_is_balanced_and_of_the_promised_size(name, tmp_path):
    out = tmp_path / "deep" / "subset.npz"
    datasets.prepare(name, out, bundled=True)
    subset = datasets.load(out)
    assert subset.name == name
    assert subset.train_x.shape == (2000, 28, 28)
    assert subset.test_x.shape == (1000, 28, 28)
    assert np.bincount(subset.train_y).tolist() == [200] * 10
    assert np.bincount(subset.test_y).tolist() == [100] * 10
    assert subset.train_x.max() == 255


@pytest.mark.parametrize(
    ("name", "first_labels"), [("mnist", [5, 0, 4, 1, 9]), ("fashion_mnist", [9, 0, 0, 3, 0])]
)
def test_the_bundled_subset_keeps_the_order_of_the_idx_files(name, first_labels):
    subset = datasets.load(datasets.BUNDLED / f"{name}.npz")
    assert subset.train_y[:5].tolist() == first_labels


@needs_full_data
@pytest.mark.parametrize(
    ("name", "first_label", "ones"),
    [("mnist", 5, 6742), ("fashion_mnist", 9, 6000)],
    ids=["mnist", "fashion_mnist"],
)
def test_the_full_data_are_complete_and_the_subset_is_the_first_of_each_class(
    name, first_label, ones, tmp_path
):
    datasets.prepare(name, tmp_path / "full.npz", mirror=FULL)
    full = datasets.load(tmp_path / "full.npz")
    assert full.train_x.shape == (60_000, 28, 28)
    assert full.test_x.shape == (10_000, 28, 28)
    assert full.train_y[0] == first_label
    assert np.count_nonzero(full.train_y == 1) == ones
    subset = datasets.load(datasets.BUNDLED / f"{name}.npz")
    for label in range(10):
        for split, n in (("train", 200), ("test", 100)):
            x, y = getattr(full, f"{split}_x"), getattr(full, f"{split}_y")
            small_x, small_y = getattr(subset, f"{split}_x"), getattr(subset, f"{split}_y")
            np.testing.assert_array_equal(small_x[small_y == label], x[y == label][:n])


@needs_full_data
def test_cutting_the_subset_again_gives_the_contents_that_are_bundled(tmp_path):
    command = [
        sys.executable,
        ROOT / "scripts" / "cut_bundled_subset.py",
        "--mirror",
        FULL,
        "--out",
        tmp_path,
    ]
    subprocess.run(
        command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    for name in datasets.DATASETS:
        cut, bundled = (
            datasets.load(tmp_path / f"{name}.npz"),
            datasets.load(datasets.BUNDLED / f"{name}.npz"),
        )
        assert cut.sha256 == bundled.sha256


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_table_names_the_addresses_that_tfds_registered(name):
    import tensorflow_datasets as tfds

    source = datasets.DATASETS[name]
    assert source.url == tfds.builder_cls(source.tfds_name).URL
    assert {source.url + file for file in datasets.FILES.values()} == set(datasets._registered(source))


def test_importing_the_module_does_not_import_tfds():
    code = "import smcda.datasets, sys; sys.exit('tensorflow_datasets' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# --- mirror -------------------------------------------------------------------------------


def test_a_mirror_gives_back_exactly_what_is_in_its_files(mirror, tmp_path):
    datasets.prepare("tiny", tmp_path / "out.npz", mirror=mirror)
    dataset = datasets.load(tmp_path / "out.npz")
    assert dataset.name == "tiny"
    for key, array in ARRAYS.items():
        np.testing.assert_array_equal(getattr(dataset, key), array)


def test_the_checksum_of_the_contents_is_the_documented_one(mirror, tmp_path):
    datasets.prepare("tiny", tmp_path / "out.npz", mirror=mirror)
    expected = hashlib.sha256()
    for key in ("train_x", "train_y", "test_x", "test_y"):
        expected.update(f"{key} {ARRAYS[key].shape}\n".encode() + ARRAYS[key].tobytes())
    assert datasets.load(tmp_path / "out.npz").sha256 == expected.hexdigest()


def test_preparing_twice_gives_the_same_bytes(mirror, tmp_path, monkeypatch):
    datasets.prepare("tiny", tmp_path / "one.npz", mirror=mirror)
    monkeypatch.setattr(time, "time", lambda: 2e9)  # a timestamp in the archive would now differ
    datasets.prepare("tiny", tmp_path / "two", mirror=mirror)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_altered_mirror_file_is_named_with_both_checksums(mirror, tmp_path):
    file = mirror / "tiny" / "t10k-images-idx3-ubyte.gz"
    expected = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes()[:-1])
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    out = tmp_path / "out.npz"
    refused(file, expected, found, call=lambda: datasets.prepare("tiny", out, mirror=mirror))
    assert not out.exists()


def test_a_mirror_must_be_complete_even_if_the_rest_could_be_downloaded(server, mirror, tmp_path):
    del server
    (mirror / "tiny" / "train-labels-idx1-ubyte.gz").unlink()
    message = refused(
        "the mirror lacks train-labels-idx1-ubyte.gz;",
        mirror / "tiny",
        call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", mirror=mirror),
    )
    assert "train-images-idx3-ubyte.gz" not in message


@pytest.mark.parametrize("made", ["file", "nothing"])
def test_a_mirror_must_be_a_folder(made, tmp_path):
    path = tmp_path / "mirror"
    if made == "file":
        path.write_text("")
    refused(path, "not a folder", call=lambda: datasets.prepare("mnist", tmp_path / "out.npz", mirror=path))


def test_an_unknown_dataset_is_refused_with_those_there_are(tmp_path):
    refused("'cifar'", "mnist, fashion_mnist", call=lambda: datasets.prepare("cifar", tmp_path / "out.npz"))


def test_two_sources_at_once_are_refused(tmp_path):
    refused(
        "--bundled",
        f"--mirror {tmp_path}",
        call=lambda: datasets.prepare("mnist", tmp_path / "out.npz", mirror=tmp_path, bundled=True),
    )


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"no gzip", "gzip"),
        (idx(ARRAYS["train_x"])[:-9], "gzip"),
        (gzip.compress(b""), "00000803"),
        (gzip.compress(bytes([0, 0, 8, 3, 0, 0])), "00000803"),
        (idx(ARRAYS["train_y"]), "00000803"),
        (gzip.compress(gzip.decompress(idx(ARRAYS["train_x"]))[:-1]), "(5, 28, 28) but holds 3919"),
        (gzip.compress(gzip.decompress(idx(ARRAYS["train_x"])) + b"x"), "(5, 28, 28) but holds 3921"),
    ],
    ids=["no gzip", "cut gzip", "empty", "short header", "labels for images", "too short", "too long"],
)
def test_an_idx_file_must_agree_with_its_own_header(content, rule):
    refused("some.gz", rule, call=lambda: datasets._parse_idx(Path("some.gz"), content, 3))


# --- cache and network --------------------------------------------------------------------


def test_a_download_is_verified_cached_and_needs_no_server_the_second_time(server, tmp_path, capfd):
    cache = tmp_path / "cache"
    datasets.prepare("tiny", tmp_path / "one.npz", cache=cache)
    server.shutdown()
    server.server_close()
    datasets.prepare("tiny", tmp_path / "two.npz", cache=cache)
    np.testing.assert_array_equal(datasets.load(tmp_path / "one.npz").train_x, ARRAYS["train_x"])
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert "tensorflow" not in sys.modules
    assert capfd.readouterr() == ("", "")


def test_an_altered_file_in_the_cache_is_refused_though_tfds_would_take_it(server, tmp_path):
    cache = tmp_path / "cache"
    datasets.prepare("tiny", tmp_path / "one.npz", cache=cache)
    expected = hashlib.sha256(idx(ARRAYS["test_y"])).hexdigest()
    (file,) = (f for f in cache.rglob("*.gz") if hashlib.sha256(f.read_bytes()).hexdigest() == expected)
    file.write_bytes(idx(ARRAYS["test_y"][::-1]))
    refused(file, expected, call=lambda: datasets.prepare("tiny", tmp_path / "two.npz", cache=cache))


def test_an_altered_download_is_refused_with_both_checksums_and_ends_the_work(
    server, mirror, tmp_path, capfd
):
    file = mirror / "tiny" / "train-images-idx3-ubyte.gz"
    expected = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(b"<html>please log in to this network</html>")
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    refused(
        file.name,
        expected,
        found,
        "--mirror DIR",
        call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"),
    )
    assert server.asked == {f"/{file.name}"}
    assert capfd.readouterr() == ("", "")


def test_without_a_network_it_fails_in_seconds_and_says_which_files_to_put_where(mirror, tmp_path, capfd):
    del mirror
    began = time.monotonic()
    refused(
        *datasets.FILES.values(),
        "DIR/tiny/",
        "--mirror DIR",
        call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"),
    )
    assert time.monotonic() - began < 10
    assert capfd.readouterr() == ("", "")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_network_that_swallows_everything_is_not_waited_for(mirror, tmp_path, monkeypatch):
    del mirror
    monkeypatch.setattr(datasets, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setitem(datasets.DATASETS, "tiny", datasets.Source("tiny", url))
        began = time.monotonic()
        refused(
            url, "Time", call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache")
        )
        assert time.monotonic() - began < 5


def test_a_name_lookup_that_hangs_is_not_waited_for(mirror, tmp_path, monkeypatch):
    del mirror
    released = threading.Event()
    monkeypatch.setattr(datasets, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: released.wait(30) and [])
    began = time.monotonic()
    refused(
        "--mirror DIR", call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache")
    )
    released.set()
    assert time.monotonic() - began < 5


def test_a_file_that_the_server_lacks_is_not_retried_for_minutes(server, mirror, tmp_path):
    del server
    (mirror / "tiny" / "train-images-idx3-ubyte.gz").unlink()
    began = time.monotonic()
    refused(
        "HTTPError", call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache")
    )
    assert time.monotonic() - began < 5


def test_a_cache_that_cannot_be_used_is_named(mirror, tmp_path):
    del mirror
    (tmp_path / "cache").write_text("a file, not a folder")
    refused(
        tmp_path / "cache",
        "--cache",
        call=lambda: datasets.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"),
    )


# --- the .npz -----------------------------------------------------------------------------


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
    for at in RNG.integers(0, len(whole), 150):
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
        ({"train_x": ARRAYS["train_x"][:, :27]}, ["train_x", "(5, 27, 28)", "(n, 28, 28)"]),
        ({"train_x": ARRAYS["train_x"].reshape(5, 784)}, ["train_x", "(5, 784)"]),
        ({"test_y": ARRAYS["test_y"][:2]}, ["test_x", "(3, 28, 28)", "test_y", "(2,)"]),
        ({"test_y": ARRAYS["test_y"][:, None]}, ["test_y", "(3, 1)"]),
        ({"test_x": ARRAYS["test_x"][:0], "test_y": ARRAYS["test_y"][:0]}, ["test_x", "at least 1"]),
        ({"train_y": np.array([5, 0, 10, 1, 5], np.uint8)}, ["train_y", "label 10", "0 to 9"]),
        ({"train_x": np.array([{}] * 5)}, ["pickle"]),
        ({"train_x": np.uint8(3)}, ["train_x", "()"]),
    ],
)
def test_arrays_that_break_a_rule_are_refused_with_the_rule(changes, words, tmp_path):
    path = write_npz(tmp_path / "own.npz", **changes)
    refused(path, *words, call=lambda: datasets.load(path))


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
        refused(out, "cannot be written", call=lambda out=out: datasets.prepare("mnist", out, bundled=True))


def test_processes_that_prepare_the_same_file_at_once_do_not_spoil_it(tmp_path):
    out = tmp_path / "out.npz"
    code = "import sys; from pathlib import Path; from smcda import datasets\n"
    code += "for _ in range(5): datasets.prepare('mnist', Path(sys.argv[1]), bundled=True)\n"
    running = [subprocess.Popen([sys.executable, "-c", code, out], cwd=ROOT) for _ in range(2)]
    while any(process.poll() is None for process in running):
        if out.exists():
            datasets.load(out)
        time.sleep(0.02)
    assert [process.returncode for process in running] == [0, 0]
    assert list(tmp_path.iterdir()) == [out]
