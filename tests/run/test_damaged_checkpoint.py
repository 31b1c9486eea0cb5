"""A checkpoint that is damaged, forged or another run's is named and not used."""

import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.checkpoint_store import ARRAYS, IDENTITY, LIKE, restored, store, two_generations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smcda.run import generation
from smcda.run.checkpoint import Checkpoints
from smcda.run.generation import Unusable


@pytest.fixture
def two(tmp_path):
    """The folders of two generations, of iterations 1 and 2."""
    return two_generations(tmp_path / "c")


def largest(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def link(path):
    shutil.copy(path, path.parents[3] / "elsewhere")
    path.unlink()
    path.symlink_to(path.parents[3] / "elsewhere")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


DAMAGE = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a byte flipped": flip,
    "emptied": lambda path: os.truncate(path, 0),
    "removed": Path.unlink,
    "a link elsewhere": link,
    "a pipe": pipe,
    "a file added": lambda path: path.with_name("more").write_text("?"),
}


@pytest.mark.parametrize("which", ["an array", "manifest"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_newest_generation_is_named_and_the_older_one_used(damage, which, two, tmp_path, capsys):
    if damage == "a link elsewhere" and which == "manifest":
        two[-1].joinpath("manifest.json").rename(tmp_path / "moved")
        two[-1].joinpath("manifest.json").symlink_to(tmp_path / "moved")
    else:
        DAMAGE[damage](two[-1] / "manifest.json" if which == "manifest" else largest(two[-1] / "arrays"))
    assert restored(tmp_path / "c") == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"checkpoint {two[-1]} is not used: " in said


def test_a_generation_without_permissions_is_named_and_the_older_one_used(two, tmp_path, capsys):
    newest = largest(two[-1] / "arrays")
    newest.chmod(0)
    for folder in [*tmp_path.parents, *(path for path in tmp_path.rglob("*") if path.is_dir()), tmp_path]:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    root = os.geteuid() == 0
    if root:  # to whom permissions mean nothing
        os.seteuid(65534)
    try:
        assert restored(tmp_path / "c") == 1
    finally:
        if root:
            os.seteuid(0)
    assert f"checkpoint {two[-1]} is not used: {newest}: Permission denied" in capsys.readouterr().err


def test_without_a_usable_generation_the_run_starts_afresh_and_says_why(two, tmp_path, capsys):
    for folder in two:
        flip(largest(folder / "arrays"))
    assert restored(tmp_path / "c") is None
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "is not as it was written" in lines[0] and lines[2].endswith("starting afresh")


def test_unusable_generations_give_way_to_the_next_good_one(two, tmp_path):
    flip(largest(two[-1] / "arrays"))
    checkpoints = store(tmp_path / "c")
    checkpoints.restore(LIKE)
    checkpoints.save(3, LIKE)
    left = sorted(path.name for path in checkpoints.folder.iterdir())
    assert left == ["generation-000001", "generation-000003"]


def resign(folder, **changes):
    """Change a manifest and make its own checksum right again."""
    content = json.loads((folder / "manifest.json").read_text())["content"] | changes
    manifest = {"content": content, "sha256": generation._sha256_of(content)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_manifest_altered_in_what_nothing_else_tells_is_not_used(two, tmp_path, capsys):
    manifest = two[-1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"iteration": 2', '"iteration": 1'))
    assert restored(tmp_path / "c") == 1
    assert "manifest.json was altered" in capsys.readouterr().err


def test_another_format_is_never_used(two, tmp_path, capsys):
    resign(two[-1], format=generation.FORMAT + 1)
    assert restored(tmp_path / "c") == 1
    assert f"its format is {generation.FORMAT + 1}, not {generation.FORMAT}" in capsys.readouterr().err


def test_other_settings_are_never_used_even_in_this_runs_folder(two, tmp_path, capsys):
    resign(two[-1], identity=IDENTITY | {"step_size": 0.2})
    assert restored(tmp_path / "c") == 1
    assert "it was made with another step_size" in capsys.readouterr().err


def test_a_checkpoint_of_other_data_for_the_same_place_is_named(two, tmp_path, capsys):
    assert store(tmp_path / "c", seed=4).restore(LIKE) is None
    said = capsys.readouterr().err
    assert "is not used: it was made with another seed" in said
    assert Checkpoints(tmp_path / "c", IDENTITY | {"seed": 4}, tmp_path / "elsewhere").restore(LIKE) is None
    assert capsys.readouterr().err == ""


def test_arrays_of_other_shapes_or_types_are_never_used(two, tmp_path, capsys):
    for change in (np.zeros((3, 5), np.float32), np.zeros((3, 4)), np.zeros((4, 3), np.float32)):
        assert store(tmp_path / "c").restore(LIKE | {"particles": change}) is None
        assert "its arrays are not those of this run" in capsys.readouterr().err


def test_reading_never_unpickles(two, tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    monkeypatch.setattr(np.lib.format, "pickle", None, raising=False)
    assert restored(tmp_path / "c") == 2


def test_files_that_answer_late_print_nothing_and_other_surprises_do(two, tmp_path, monkeypatch):
    """A failed read closes Orbax's event loop while other files are still on their way."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    generation._ignore_late_answers.cache_clear()
    assert restored(tmp_path / "c") == 2
    late, other = (SimpleNamespace(exc_value=RuntimeError(said)) for said in ("Event loop is closed", "oh"))
    sys.unraisablehook(late)
    sys.unraisablehook(other)
    assert told == [other]
    generation._ignore_late_answers.cache_clear()


EXAMPLES = int(os.environ.get("SMCDA_EXAMPLES", "40"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One generation, to be copied and broken."""
    folder = tmp_path_factory.mktemp("whole") / "generation-000001"
    generation.write(folder, LIKE, {"identity": IDENTITY, "out": "out", "iteration": 1})
    return folder


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_generation_is_whole_or_refused_in_one_line(whole, tmp_path, data):
    folder = tmp_path / "generation"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 20)))
    content[start:stop] = data.draw(st.binary(max_size=20))
    path.write_bytes(content)
    if path.name != "manifest.json" and data.draw(st.booleans()):
        # As somebody would who wants it to be accepted: checksums that fit.
        resign(folder, files=generation._checksums(folder))
    try:
        found = generation.read(folder, LIKE)
    except Unusable as refusal:
        assert "\n" not in str(refusal) and str(refusal)
    else:
        assert {name: (array.shape, array.dtype) for name, array in found.items()} == {
            name: (array.shape, array.dtype) for name, array in LIKE.items()
        }
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["generation"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(["format", "identity", "files", "iteration", "out", None]), value=json_values)
def test_a_forged_manifest_is_accepted_and_valid_or_refused(whole, tmp_path, key, value):
    folder = tmp_path / "c" / store(tmp_path / "c").folder.name / "generation-000001"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    if key is None:
        (folder / "manifest.json").write_text(json.dumps(value))
    else:
        resign(folder, **{key: value})
    found = store(tmp_path / "c").restore(LIKE)
    assert found is None or (found["particles"] == ARRAYS["particles"]).all()
