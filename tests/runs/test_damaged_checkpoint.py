"""A checkpoint that is damaged or another run's is named and not used."""

import json
import logging
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.checkpoint_store import FINGERPRINT, LIKE, restored, store, two_checkpoints
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smcda.errors import configure_logging
from smcda.runs import checkpoint
from smcda.runs.checkpoint import MANIFEST, Checkpoints


@pytest.fixture
def two(tmp_path):
    """The folders of two checkpoints, of iterations 1 and 2."""
    return two_checkpoints(tmp_path / "c")


@pytest.fixture
def lines(capfd):
    """What was printed since the last call, as lines."""
    configure_logging()
    return lambda: capfd.readouterr().err.splitlines()


def largest(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a byte flipped": flip,
    "emptied": lambda path: os.truncate(path, 0),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("which", ["arrays", "manifest"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_newest_checkpoint_is_named_and_the_older_one_used(damage, which, two, tmp_path, lines):
    DAMAGE[damage](two[-1] / MANIFEST if which == "manifest" else largest(two[-1] / "arrays"))
    assert restored(tmp_path / "c") == 1
    (line,) = lines()
    assert line.startswith(f"smcda: checkpoint {two[-1]} is not used: ")


def edit_manifest(folder, **changes):
    manifest = json.loads((folder / MANIFEST).read_text())
    assert changes.keys() <= manifest.keys()
    (folder / MANIFEST).write_text(json.dumps(manifest | changes))


def test_arrays_are_compared_with_their_checksums(two, tmp_path, lines):
    """Whatever the storage's own checks let pass."""
    shutil.rmtree(two[-1] / "arrays")
    shutil.copytree(two[0] / "arrays", two[-1] / "arrays")
    assert restored(tmp_path / "c") == 1
    assert lines() == [f"smcda: checkpoint {two[-1]} is not used: array iteration is not as it was saved"]


def test_without_a_usable_checkpoint_the_run_starts_from_scratch_and_says_why(two, tmp_path, lines):
    for folder in two:
        flip(largest(folder / "arrays"))
    assert restored(tmp_path / "c") is None
    newer, older, last = lines()
    assert f"{two[1]} is not used: " in newer and f"{two[0]} is not used: " in older
    assert last == f"smcda: no checkpoint in {two[0].parent} can be used: starting from scratch"


def test_an_unusable_checkpoint_gives_way_to_the_next_good_one(two, tmp_path):
    flip(largest(two[-1] / "arrays"))
    checkpoints = store(tmp_path / "c")
    checkpoints.restore(LIKE)
    assert checkpoints.save(2, LIKE) == 2  # the iteration of the one that was damaged
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["1", "2"]
    assert store(tmp_path / "c").restore(LIKE) is not None


def test_other_settings_are_never_used_even_in_this_runs_folder(two, tmp_path, lines):
    edit_manifest(two[-1], fingerprint=FINGERPRINT | {"step_size": 0.2})
    assert restored(tmp_path / "c") == 1
    assert lines() == [f"smcda: checkpoint {two[-1]} is not used: it was made with another step_size"]


def test_the_newest_checkpoint_of_another_fingerprint_for_the_same_place_is_named(two, tmp_path, lines):
    assert store(tmp_path / "c", seed=4).restore(LIKE) is None
    assert lines() == [f"smcda: checkpoint {two[-1]} is not used: it was made with another seed"]
    elsewhere = Checkpoints(tmp_path / "c", FINGERPRINT | {"seed": 4}, tmp_path / "elsewhere")
    assert elsewhere.restore(LIKE) is None
    assert lines() == []


def test_arrays_of_other_shapes_types_or_names_are_never_used(two, tmp_path, lines):
    for change in (
        {"particles": np.zeros((30, 401), np.float32)},
        {"particles": np.zeros((30, 400))},
        {"particles": np.zeros((400, 30), np.float32)},
        {"more": np.zeros(1)},
    ):
        assert store(tmp_path / "c").restore(LIKE | change) is None
        assert "its arrays are not those of this run" in lines()[0]


def test_arrays_that_fail_late_print_nothing_and_other_surprises_do(two, tmp_path, monkeypatch, caplog):
    """A failed read closes Orbax's event loop while other files are still being read."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    checkpoint._silence_orbax_teardown.cache_clear()
    assert restored(tmp_path / "c") == 2
    late, other = (SimpleNamespace(exc_value=RuntimeError(text)) for text in ("Event loop is closed", "oh"))
    sys.unraisablehook(late)
    sys.unraisablehook(other)
    assert reported == [other]
    logging.getLogger("asyncio").error("Task exception was never retrieved: tensorstore")
    logging.getLogger("asyncio").error("oh")
    assert caplog.messages == ["oh"]
    checkpoint._silence_orbax_teardown.cache_clear()


EXAMPLES = int(os.environ.get("SMCDA_EXAMPLES", "40"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_checkpoint_is_intact_or_passed_over(tmp_path_factory, data):
    whole = tmp_path_factory.getbasetemp() / "whole"
    if not whole.exists():
        two_checkpoints(whole / "c")
    folder = tmp_path_factory.getbasetemp() / "mutated"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    newest = store(folder / "c").folder / "2"
    path = data.draw(st.sampled_from(sorted(path for path in newest.rglob("*") if path.is_file())))
    content = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 20)))
    content[start:stop] = data.draw(st.binary(max_size=20))
    path.write_bytes(content)
    found = store(folder / "c").restore(LIKE)
    assert int(found["iteration"]) in (1, 2)
    for name in ("particles", "flags"):
        assert found[name].tobytes() == LIKE[name].tobytes()
