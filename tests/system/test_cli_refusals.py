"""Bad input to the command is one line and exit code 2, and leaves nothing behind."""

import numpy as np
import pytest
from helpers.command_line import assert_refused, call, make_options

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"scheme": "cubic"}, ["scheme", "'cubic'", "linear"]),
        ({"kernel": "nuts"}, ["kernel", "'nuts'", "hmc"]),
        ({"model": "vgg"}, ["model", "'vgg'", "lenet5"]),
        ({"resampling": "bootstrap"}, ["resampling", "'bootstrap'", "systematic"]),
        ({"weight_target": "next"}, ["weight_target", "'next'", "previous"]),
        *[({"step_size": h}, ["step_size", h]) for h in ("0.0", "-0.5", "nan", "inf")],
        ({"particles": 1}, ["particles", "1", "at least 2"]),
        ({"particles": "abc"}, ["particles is 'abc'", "a whole number of at least 2"]),
        ({"particles": "2.5"}, ["particles is '2.5'", "a whole number of at least 2"]),
        ({"partickles": 3}, ["unrecognized arguments: --partickles 3", "see smcda run --help"]),
        ({"iterations": 0}, ["iterations", "0"]),
        ({"leapfrog_steps": 0}, ["leapfrog_steps", "0"]),
        ({"kernel": "ld", "leapfrog_steps": 3}, ["leapfrog_steps", "3", "ld"]),
        ({"batch_size": 61}, ["batch_size", "61", "60"]),
        ({"batch_size": 0}, ["batch_size", "0"]),
        ({"initial_batch": 61}, ["initial_batch", "61", "60"]),
        ({"refine_from": 1.5}, ["refine_from", "1.5"]),
        ({"beta_restart": 0}, ["beta_restart", "0"]),
        ({"delta_entropy": -1}, ["delta_entropy", "-1"]),
        ({"evaluate_every": 0}, ["evaluate_every", "0"]),
        ({"batch_norm": True}, ["batch_norm", "lenet5"]),
        *[({"prior_scale": s}, ["prior_scale", s, "1e-06"]) for s in ("0.0", "-0.1", "nan", "inf", "1e-40")],
        *[({"prior_scale": s}, ["prior_scale", s, "2*fan_in"]) for s in ("0*fan_in", "1e*fan_in")],
        ({"prior_scale": "fan_out"}, ["prior_scale is 'fan_out'", "or fan_in or hierarchical"]),
        ({"prior_scale": "hierarchical", "start": "lecun"}, ["start", "lecun", "hierarchical"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"seed": 2**64}, ["seed", 2**64]),
        ({"seed": "first"}, ["seed is 'first'", "a whole number"]),
        ({"threads": 0}, ["threads", "0"]),
        *[({name: None}, [f"--{name}"]) for name in ("data", "model", "out")],
    ],
    ids=lambda value: "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_a_bad_option_is_refused_by_its_value(data, cache, tmp_path, changes, named):
    out = tmp_path / "run"
    assert_refused(call(*make_options(data, cache, out, **changes)), *named)
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train_y": np.full(60, 10, np.uint8)}, ["train_y", "10"]),
        ({"test_y": np.arange(30, dtype=np.uint8)}, ["test_y", "29"]),
        ({"train_x": np.zeros((60, 32, 32), np.uint8)}, ["train_x", "(60, 32, 32)"]),
        ({"test_x": np.zeros((29, 28, 28), np.uint8)}, ["test_x", "(29, 28, 28)"]),
        ({"train_x": np.zeros((60, 28, 28))}, ["train_x", "float64"]),
    ],
)
def test_data_of_the_wrong_kind_are_refused(arrays, cache, tmp_path, changes, named):
    path = tmp_path / "wrong.npz"
    np.savez(path, **(arrays | changes))
    assert_refused(call(*make_options(path, cache, tmp_path / "run")), path, *named)
    assert not (tmp_path / "run").exists()


def test_damaged_data_are_refused(data, cache, tmp_path):
    path = tmp_path / "damaged.npz"
    for content in (data.read_bytes()[:5000], b"", b"not an archive"):
        path.write_bytes(content)
        assert_refused(call(*make_options(path, cache, tmp_path / "run")), path)
    path.unlink()
    assert_refused(call(*make_options(path, cache, tmp_path / "run")), path, "No such file")
    assert not (tmp_path / "run").exists()


def test_altered_data_are_refused_with_both_checksums(cache, tmp_path):
    path = tmp_path / "mnist.npz"
    assert call("data", "mnist", "--bundled", "--out", path)[0] == 0
    with np.load(path) as archive:
        contents = dict(archive)
    contents["train_x"] = contents["train_x"].copy()
    contents["train_x"][7, 14, 14] ^= 1
    np.savez(path, **contents)
    code, out, err = call(*make_options(path, cache, tmp_path / "run"))
    assert_refused((code, out, err), path, "altered", contents["sha256"])
    checksums = [word.strip(",;") for word in err.split() if len(word.strip(",;")) == 64]
    assert len(set(checksums)) == 2
    assert not (tmp_path / "run").exists()


def test_an_unknown_dataset_is_refused(tmp_path):
    assert_refused(call("data", "cifar", "--out", tmp_path / "data.npz"), "'cifar'", "mnist")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "run"])
def test_an_output_that_is_a_file_or_beneath_one_is_refused(data, cache, tmp_path, below):
    file = tmp_path / "file"
    file.write_text("kept")
    assert_refused(call(*make_options(data, cache, file / below)), file / below)
    assert file.read_text() == "kept"
