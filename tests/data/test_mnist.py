"""Where images may come from: only verified contents come in, every failure is one line with a way out."""

import gzip
import hashlib
import http.server
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.made_up_images import ARRAYS, closed_port, idx, refused

from smcda._io import exclusive
from smcda.data import dataset as datasets
from smcda.data import mnist as sources
from smcda.errors import configure_logging


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A made-up dataset `tiny`, complete in a mirror and registered with its true checksums."""
    from tensorflow_datasets.core.download.checksums import compute_url_info

    folder = tmp_path / "mirror" / "tiny"
    folder.mkdir(parents=True)
    for key, file in sources.FILES.items():
        (folder / file).write_bytes(idx(ARRAYS[key]))
    infos = {file: compute_url_info(folder / file) for file in sources.FILES.values()}
    url = f"http://127.0.0.1:{closed_port()}/"
    monkeypatch.setitem(sources.DATASETS, "tiny", url)
    monkeypatch.setattr(
        sources, "_registered", lambda name: {sources.DATASETS[name] + file: i for file, i in infos.items()}
    )
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder.parent


@pytest.fixture
def server(mirror, monkeypatch):
    """An HTTP server that has the files of `tiny` at their address; it notes which were requested."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(mirror / "tiny"))

        def log_message(self, *args):
            requested.add(self.path)

    requested = set()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{running.server_port}/"
        monkeypatch.setitem(sources.DATASETS, "tiny", url)
        running.requested = requested
        yield running
        running.shutdown()


def test_a_mirror_gives_back_exactly_what_is_in_its_files(mirror, tmp_path):
    sources.prepare("tiny", tmp_path / "out.npz", mirror=mirror)
    dataset = datasets.load(tmp_path / "out.npz")
    assert dataset.name == "tiny"
    for key, array in ARRAYS.items():
        np.testing.assert_array_equal(getattr(dataset, key), array)


def test_the_checksum_of_the_contents_is_the_documented_one(mirror, tmp_path):
    sources.prepare("tiny", tmp_path / "out.npz", mirror=mirror)
    expected = hashlib.sha256()
    for key in ("train_x", "train_y", "test_x", "test_y"):
        expected.update(f"{key} {ARRAYS[key].shape}\n".encode() + ARRAYS[key].tobytes())
    assert datasets.load(tmp_path / "out.npz").sha256 == expected.hexdigest()


def test_preparing_twice_gives_the_same_bytes(mirror, tmp_path, monkeypatch):
    sources.prepare("tiny", tmp_path / "one.npz", mirror=mirror)
    monkeypatch.setattr(time, "time", lambda: 2e9)  # a timestamp in the archive would now differ
    sources.prepare("tiny", tmp_path / "two", mirror=mirror)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_altered_mirror_file_is_named_with_both_checksums(mirror, tmp_path):
    file = mirror / "tiny" / "t10k-images-idx3-ubyte.gz"
    expected = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes()[:-1])
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    out = tmp_path / "out.npz"
    refused(file, expected, found, call=lambda: sources.prepare("tiny", out, mirror=mirror))
    assert not out.exists()


def test_a_mirror_must_be_complete_even_if_the_rest_could_be_downloaded(server, mirror, tmp_path):
    del server
    (mirror / "tiny" / "train-labels-idx1-ubyte.gz").unlink()
    message = refused(
        "the mirror lacks train-labels-idx1-ubyte.gz;",
        mirror / "tiny",
        call=lambda: sources.prepare("tiny", tmp_path / "out.npz", mirror=mirror),
    )
    assert "train-images-idx3-ubyte.gz" not in message


@pytest.mark.parametrize("made", ["file", "nothing"])
def test_a_mirror_must_be_a_folder(made, tmp_path):
    path = tmp_path / "mirror"
    if made == "file":
        path.write_text("")
    refused(path, "not a folder", call=lambda: sources.prepare("mnist", tmp_path / "out.npz", mirror=path))


def test_an_unknown_dataset_is_refused_with_those_there_are(tmp_path):
    refused("'cifar'", "mnist, fashion_mnist", call=lambda: sources.prepare("cifar", tmp_path / "out.npz"))


def test_two_sources_at_once_are_refused(tmp_path):
    refused(
        "--bundled",
        f"--mirror {tmp_path}",
        call=lambda: sources.prepare("mnist", tmp_path / "out.npz", mirror=tmp_path, bundled=True),
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
    refused("some.gz", rule, call=lambda: sources._parse_idx(Path("some.gz"), content, 3))


def test_a_download_is_verified_cached_and_needs_no_server_the_second_time(server, tmp_path, capfd):
    cache = tmp_path / "cache"
    sources.prepare("tiny", tmp_path / "one.npz", cache=cache)
    server.shutdown()
    server.server_close()
    sources.prepare("tiny", tmp_path / "two.npz", cache=cache)
    np.testing.assert_array_equal(datasets.load(tmp_path / "one.npz").train_x, ARRAYS["train_x"])
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert "tensorflow" not in sys.modules
    assert capfd.readouterr() == ("", "")


def test_one_process_at_a_time_downloads_to_a_cache(server, tmp_path, capfd):
    configure_logging()
    cache, message = tmp_path / "cache", ""
    with exclusive(cache / ".smcda.lock", "testing"):
        waiting = threading.Thread(
            target=sources.prepare, args=("tiny", tmp_path / "out.npz"), kwargs={"cache": cache}
        )
        waiting.start()
        while not message:
            assert waiting.is_alive()
            time.sleep(0.02)
            message = capfd.readouterr().err
        assert server.requested == set()
    waiting.join()
    assert message == f"smcda: waiting for another process that is downloading to {cache}\n"
    assert len(server.requested) == 4


def test_an_altered_file_in_the_cache_is_refused_though_tfds_would_take_it(server, tmp_path):
    cache = tmp_path / "cache"
    sources.prepare("tiny", tmp_path / "one.npz", cache=cache)
    expected = hashlib.sha256(idx(ARRAYS["test_y"])).hexdigest()
    (file,) = (f for f in cache.rglob("*.gz") if hashlib.sha256(f.read_bytes()).hexdigest() == expected)
    file.write_bytes(idx(ARRAYS["test_y"][::-1]))
    refused(file, expected, call=lambda: sources.prepare("tiny", tmp_path / "two.npz", cache=cache))


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
        call=lambda: sources.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"),
    )
    assert server.requested == {f"/{file.name}"}
    assert capfd.readouterr() == ("", "")


def test_without_a_network_it_fails_in_seconds_and_says_which_files_to_put_where(mirror, tmp_path, capfd):
    del mirror
    began = time.monotonic()
    refused(
        *sources.FILES.values(),
        "DIR/tiny/",
        "--mirror DIR",
        call=lambda: sources.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"),
    )
    assert time.monotonic() - began < 10
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] == [".smcda.lock"]


def test_a_network_that_swallows_everything_is_not_waited_for(mirror, tmp_path, monkeypatch):
    del mirror
    monkeypatch.setattr(sources, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setitem(sources.DATASETS, "tiny", url)
        began = time.monotonic()
        refused(
            url, "Time", call=lambda: sources.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache")
        )
        assert time.monotonic() - began < 5


def test_a_name_lookup_that_hangs_is_not_waited_for(mirror, tmp_path, monkeypatch):
    del mirror
    released = threading.Event()
    monkeypatch.setattr(sources, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: released.wait(30) and [])
    began = time.monotonic()
    refused(
        "--mirror DIR", call=lambda: sources.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache")
    )
    released.set()
    assert time.monotonic() - began < 5


def test_a_file_that_the_server_lacks_is_not_retried_for_minutes(server, mirror, tmp_path):
    del server
    (mirror / "tiny" / "train-images-idx3-ubyte.gz").unlink()
    began = time.monotonic()
    refused("HTTPError", call=lambda: sources.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"))
    assert time.monotonic() - began < 5


def test_a_cache_that_cannot_be_used_is_named(mirror, tmp_path):
    del mirror
    (tmp_path / "cache").write_text("a file, not a folder")
    refused(
        tmp_path / "cache",
        "--cache",
        call=lambda: sources.prepare("tiny", tmp_path / "out.npz", cache=tmp_path / "cache"),
    )
