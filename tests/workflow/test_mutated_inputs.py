"""Inputs broken at random: each is accepted and valid, or refused in one clear line; nothing is executed.

SMCDA_EXAMPLES sets how many are tried; the default is for every day, thousands are for now and then.
"""

import copy
import errno
import gzip
import io
import os
import shlex
import string
from pathlib import Path

import numpy as np
import pytest
from helpers.study import CONFIG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.config import Config, ConfigError
from lib.study import resolve

from smcda.cli import make_parser
from smcda.config import RunConfig
from smcda.data import dataset as datasets
from smcda.data import mnist as sources
from smcda.errors import BadInput
from smcda.runs.outputs import check_folder, check_output

PARSER = make_parser()
EXAMPLES = int(os.environ.get("SMCDA_EXAMPLES", "150"))
many = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
scalars |= st.sampled_from(
    [0, 1, -1, 2.0, 1e39, 1e-50, float("nan"), float("inf"), "linear", "full", "a b", ""]
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(scalars.filter(lambda x: x == x), inner, max_size=2)
    ),
    max_leaves=4,
)
places = st.sampled_from(["top", "laptop", "scales", "ablations"])
names = st.sampled_from([*Config.model_fields]) | st.text(max_size=4) | st.integers()


@many
@given(changes=st.lists(st.tuples(places, names, values), min_size=1, max_size=3))
def test_a_mutated_config_is_resolved_and_valid_or_refused_in_one_line(changes):
    config = copy.deepcopy(CONFIG)
    laptop = config["scales"]["laptop"]
    ablation = laptop.setdefault("ablations", {}).setdefault("one", {})
    targets = {"top": config, "scales": config["scales"], "laptop": laptop, "ablations": ablation}
    for place, name, value in changes:
        targets[place][name] = value
    try:
        resolved = resolve(config)
    except ConfigError as refusal:
        assert str(refusal) and "\n" not in str(refusal)
        return
    for study in (resolved, *resolved.ablations()):
        for run in study.runs()[:2]:
            cell = (run["dataset"], run["scheme"], run["kernel"])
            words = shlex.split(study.run_options(*cell))
            fixed = ["--data", "d", "--model", study.run_config(*cell).model, "--out", "o"]
            fixed += ["--scheme", run["scheme"], "--kernel", run["kernel"], "--seed", str(run["seed"])]
            given = PARSER.parse_args(["run", *fixed, *words])
            assert given.particles == study.settings["particles"]
            assert given.prior_scale == study.settings["prior_scale"]
    words = shlex.split(resolved.data_options())
    PARSER.parse_args(["data", "mnist", "--out", "o", *words])


RNG = np.random.default_rng(1)
ARRAYS = {
    "train_x": RNG.integers(0, 256, (2, 28, 28), dtype=np.uint8),
    "train_y": np.array([5, 0], np.uint8),
    "test_x": np.zeros((1, 28, 28), np.uint8),
    "test_y": np.array([7], np.uint8),
}


def archive(save=np.savez, **changes):
    stream = io.BytesIO()
    save(stream, **(ARRAYS | {"name": np.array("tiny")} | changes))
    return stream.getvalue()


ARCHIVES = [archive(), archive(np.savez_compressed), archive(sha256=np.array("0" * 64))]
IDX = [
    gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 0]), mtime=0),
    gzip.compress(bytes([0, 0, 8, 3]) + bytes([0, 0, 0, 1]) * 3 + b"x", mtime=0),
]
edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=3
)


def mutated(content, changes):
    content = bytearray(content)
    for place, length, new in changes:
        start = int(place * len(content))
        content[start : start + length] = new
    return bytes(content)


def must_be_valid_or_refused(call):
    try:
        return call()
    except BadInput as refusal:
        assert str(refusal) and "\n" not in str(refusal)
        return None


@many
@given(content=st.sampled_from(ARCHIVES), changes=edits)
def test_a_mutated_archive_is_valid_or_refused_in_one_line(tmp_path, content, changes):
    path = tmp_path / "data.npz"
    path.write_bytes(mutated(content, changes))
    dataset = must_be_valid_or_refused(lambda: datasets.load(path))
    if dataset is not None:
        assert datasets.checked("", "", {key: getattr(dataset, key) for key in datasets.ARRAYS})
    assert [file.name for file in tmp_path.iterdir()] == ["data.npz"]


arrays = st.builds(
    lambda kind, shape: np.zeros(shape, kind),
    st.sampled_from(["u1", "i1", "f4", "?", "U3", "M8[s]", "c8"]),
    st.lists(st.integers(0, 3), max_size=4).map(tuple) | st.just((2, 28, 28)) | st.just((2,)),
)


@many
@given(name=st.sampled_from([*ARRAYS, "name", "sha256", "more"]), array=arrays)
def test_an_archive_with_another_array_is_valid_or_refused(tmp_path, name, array):
    path = tmp_path / "data.npz"
    path.write_bytes(archive(**{name: array}))
    must_be_valid_or_refused(lambda: datasets.load(path))


@many
@given(content=st.sampled_from(IDX), changes=edits, dimensions=st.sampled_from([1, 3]))
def test_a_mutated_idx_file_is_valid_or_refused_in_one_line(content, changes, dimensions):
    broken = mutated(content, changes)
    array = must_be_valid_or_refused(lambda: sources._parse_idx(Path("f.gz"), broken, dimensions))
    assert array is None or (array.dtype == np.uint8 and array.ndim == dimensions)


@many
@given(text=st.text(string.printable, max_size=12), option=st.sampled_from(["data", "out", "checkpoint_dir"]))
def test_names_of_files_never_make_a_traceback(tmp_path_factory, text, option):
    place = tmp_path_factory.getbasetemp() / "names"
    place.mkdir(exist_ok=True)
    paths = {"data": place / "data", "out": place / "out", option: place / text}
    config = must_be_valid_or_refused(lambda: RunConfig(model="lenet5", **paths))
    if config is not None:
        must_be_valid_or_refused(lambda: check_folder("checkpoint_dir", config.checkpoints))
        must_be_valid_or_refused(lambda: check_output(config.out, overwrite=False))
        must_be_valid_or_refused(lambda: datasets.load(config.data))
    assert list(place.iterdir()) == []


def test_an_output_without_a_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for out in (Path(), Path("..")):
        with pytest.raises(BadInput, match="cannot be written"):
            sources.prepare("mnist", out, bundled=True)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_not_bad_input(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as failed:
        sources.prepare("mnist", tmp_path / "data.npz", bundled=True)
    assert failed.value.filename == str(tmp_path / "data.npz")
    assert list(tmp_path.iterdir()) == []


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_an_archive_with_a_pickle_is_refused_and_nothing_in_it_runs(tmp_path):
    trap = np.empty(1, object)
    trap[0] = Trap(tmp_path / "sprung")
    path = tmp_path / "data.npz"
    path.write_bytes(archive(train_y=trap))
    with pytest.raises(BadInput, match="train_y is of type object"):
        datasets.load(path)
    assert not (tmp_path / "sprung").exists()


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "data.npz")
    with pytest.raises(BadInput, match="it is not a file"):
        datasets.load(tmp_path / "data.npz")
