"""The subset inside the package, and that it is cut from the full data as it says."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.made_up_images import ROOT

from smcda.data import dataset as datasets
from smcda.data import mnist as sources

FULL = ROOT.parent / "shared" / "data"
needs_full_data = pytest.mark.skipif(not FULL.is_dir(), reason="the full data are not on this machine")


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_bundled_subset_is_balanced_and_of_the_promised_size(name, tmp_path):
    out = tmp_path / "deep" / "subset.npz"
    sources.prepare(name, out, bundled=True)
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
    subset = datasets.load(sources.BUNDLED / f"{name}.npz")
    assert subset.train_y[:5].tolist() == first_labels


@needs_full_data
@pytest.mark.parametrize(
    ("name", "first_label", "ones"),
    [("mnist", 5, 6742), ("fashion_mnist", 9, 6000)],
    ids=["mnist", "fashion_mnist"],
)
@pytest.mark.slow
def test_the_full_data_are_complete_and_the_subset_is_the_first_of_each_class(
    name, first_label, ones, tmp_path
):
    sources.prepare(name, tmp_path / "full.npz", mirror=FULL)
    full = datasets.load(tmp_path / "full.npz")
    assert full.train_x.shape == (60_000, 28, 28)
    assert full.test_x.shape == (10_000, 28, 28)
    assert full.train_y[0] == first_label
    assert np.count_nonzero(full.train_y == 1) == ones
    subset = datasets.load(sources.BUNDLED / f"{name}.npz")
    for label in range(10):
        for split, n in (("train", 200), ("test", 100)):
            x, y = getattr(full, f"{split}_x"), getattr(full, f"{split}_y")
            small_x, small_y = getattr(subset, f"{split}_x"), getattr(subset, f"{split}_y")
            np.testing.assert_array_equal(small_x[small_y == label], x[y == label][:n])


@pytest.mark.slow
@needs_full_data
def test_cutting_the_subset_again_gives_the_contents_that_are_bundled(tmp_path):
    command = [
        sys.executable,
        ROOT / "tools" / "cut_bundled_subset.py",
        "--mirror",
        FULL,
        "--out",
        tmp_path,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in sources.SUBSETS:
        cut, bundled = (
            datasets.load(tmp_path / f"{name}.npz"),
            datasets.load(sources.BUNDLED / f"{name}.npz"),
        )
        assert cut.sha256 == bundled.sha256


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_table_names_the_addresses_that_tfds_registered(name):
    import tensorflow_datasets as tfds

    url = sources.DATASETS[name]
    assert url == tfds.builder_cls(name).URL
    assert {url + file for file in sources.FILES.values()} == set(sources._registered(name))


def test_importing_the_module_does_not_import_tfds():
    code = "import smcda.data.mnist, sys; sys.exit('tensorflow_datasets' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
