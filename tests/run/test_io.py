"""Files appear whole or not at all."""

import os
import stat

import pytest

from smcda._io import whole_file, write_text


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_inside_leaves_what_was_there_and_nothing_else(tmp_path, old, failure):
    path = tmp_path / "result.json"
    if old is not None:
        path.write_text(old)
    with pytest.raises(failure), whole_file(path) as temporary:
        temporary.write_text("half of")
        raise failure
    assert [file.name for file in tmp_path.iterdir()] == ([] if old is None else ["result.json"])
    assert old is None or path.read_text() == old


@pytest.mark.parametrize("old", [None, "something old and longer"])
def test_contents_appear_only_when_they_are_whole(tmp_path, old):
    path = tmp_path / "result.csv"
    if old is not None:
        path.write_text(old)
    with whole_file(path) as temporary:
        temporary.write_text("new, ")
        with temporary.open("a") as file:
            file.write("and whole")
        assert (path.read_text() if path.exists() else None) == old
    assert path.read_text() == "new, and whole"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_file_is_beside_the_final_one_and_has_its_suffix(tmp_path):
    with whole_file(tmp_path / "a.npz") as temporary:
        assert temporary.parent == tmp_path and temporary.suffix == ".npz"


def test_missing_folders_are_made_and_text_is_utf8(tmp_path):
    path = tmp_path / "deep" / "er" / "note.txt"
    write_text(path, "κ = 500\n")
    assert path.read_bytes() == b"\xce\xba = 500\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0, 0o666)])
def test_permissions_follow_the_umask_and_leave_it_as_it_was(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "file", "")
        after = os.umask(umask)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert after == umask
