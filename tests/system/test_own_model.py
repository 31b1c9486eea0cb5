"""Models and data of a user's own, from the shell and from Python: killed and resumed, and what is refused.

Real data: the diabetes, digits and breast cancer sets of scikit-learn.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.results import contents

pytestmark = pytest.mark.system

MODELS = Path(__file__).parents[1] / "helpers" / "own_models.py"
SMALL = ["--particles", "16", "--max-moves", "6", "--batch-size", "50"]


def standardised(values):
    return ((values - values.mean(axis=0)) / values.std(axis=0)).astype(np.float32)


def diabetes():
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return standardised(x), standardised(y)


def five_digits():
    from sklearn.datasets import load_digits

    found = load_digits()
    few = found.target < 5
    images = np.repeat(found.images[few][..., None], 3, axis=-1)
    return images.astype(np.uint8)[:400], found.target[few][:400]


def cancer():
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return standardised(x), y


def visits():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 2)).astype(np.float32)
    return x, rng.poisson(np.exp(x @ [0.5, -0.3] + 1.0))


CASES = {
    "mlp": (diabetes, ["--likelihood", "gaussian", "--model-options", "width=8"], "test_rmse", (0.5, 0.9)),
    "cnn": (five_digits, [], "test_accuracy", (80, 100)),
    "logistic": (cancer, [], "test_accuracy", (90, 100)),
    "counts": (visits, [], "test_rmse", (1.0, 2.5)),
}
FROM_PYTHON = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import own_models
from smcda import SamplerConfig, from_flax, likelihoods, priors, run
from smcda.data.dataset import load
name, data, out = sys.argv[2], load(__import__("pathlib").Path(sys.argv[3])), sys.argv[4]
if name == "mlp":
    model = from_flax(own_models.mlp(None, 8), data.train_x, likelihoods.gaussian(), priors.fan_in())
elif name == "cnn":
    model = from_flax(own_models.cnn(data.train_x), data.train_x, likelihoods.categorical(), priors.fan_in())
else:
    model = getattr(own_models, name)(data.train_x)
config = SamplerConfig(particles=16, max_moves=6, batch_size=50)
result = run(model, data, config, seed=2, out=out, checkpoint_every=1e-6, progress=False)
assert np.isfinite(np.asarray(result.weights)).all()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, (make, *_) in CASES.items():
        x, y = make()
        order = np.random.default_rng(0).permutation(len(x))
        train, test = order[:-80], order[-80:]
        np.savez(folder / f"{name}.npz", train_x=x[train], train_y=y[train], test_x=x[test], test_y=y[test])
    return folder


def command(door, name, data, out):
    if door == "python":
        return [
            sys.executable,
            "-c",
            FROM_PYTHON,
            str(MODELS.parent),
            name,
            str(data / f"{name}.npz"),
            str(out),
        ]
    return [
        "smcda", "run", "--data", str(data / f"{name}.npz"), "--model", f"{MODELS}:{name}", "--seed", "2",
        "--out", str(out), *SMALL, *CASES[name][1], "--checkpoint-every", "1e-6", "--save-posterior",
        "--quiet",
    ]  # fmt: skip


def call(words, cache):
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    if words[0] == "smcda" and words[1] == "run":
        words = [*words, "--compilation-cache", str(cache)]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_once_it_has_saved(words, cache, out):
    process = call(words, cache)
    checkpoints = out.parent / f"{out.name}.checkpoints"
    # A step that is not complete has another name.
    while process.poll() is None and not any(step.name.isdecimal() for step in checkpoints.glob("*/*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
    assert not (out / "metrics.json").exists()


@pytest.mark.parametrize("name", CASES)
def test_a_model_and_data_of_ones_own_resume_after_a_kill_bit_for_bit(name, data, cache, tmp_path):
    undisturbed = {}
    for door in ("shell", "python"):
        whole, broken = tmp_path / f"{door}-whole", tmp_path / f"{door}-broken"
        process = call(command(door, name, data, whole), cache)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        assert "Traceback" not in errors
        killed_once_it_has_saved(command(door, name, data, broken), cache, broken)
        process = call(command(door, name, data, broken), cache)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        if door == "shell":  # in Python it is for the caller to show what is logged as information
            assert "resuming at iteration" in errors
        assert contents(broken) == contents(whole)
        assert json.loads((broken / "metrics.json").read_text())["resumed"] == 1
        assert not list(tmp_path.glob("*.checkpoints")), "no checkpoint is left"
        undisturbed[door] = whole
    headline, (low, high) = CASES[name][2:]
    metrics = json.loads((undisturbed["shell"] / "metrics.json").read_text())
    assert low < metrics[headline] < high, metrics[headline]
    # Both doors lead to the same run.
    one, other = (np.load(undisturbed[door] / "posterior.npz") for door in ("shell", "python"))
    np.testing.assert_array_equal(one["particles"], other["particles"])


REFUSED = {
    "likelihood not named": ("mlp", "mlp", [], "say what the outputs mean by likelihood"),
    "factory raises": ("mlp", "fails", [], "RuntimeError: no such layer at all"),
    "factory exits": ("mlp", "exits", [], "SystemExit: 3"),
    "model exits": ("mlp", "quits", [], "the model fails on float32 (50, 10): SystemExit: 5"),
    "factory gives nothing": ("mlp", "nothing", [], "gives NoneType, not a Flax module or a smcda.Model"),
    "factory gives a class": ("mlp", "a_class", [], "gives the class Mlp, not a Flax module or a"),
    "no factory": ("mlp", "not_callable", [], "failed: TypeError"),
    "no such name": ("mlp", "mlpp", [], "has no 'mlpp': it has"),
    "outputs do not fit": ("logistic", "ten_logits", [], "likelihood categorical: outputs of shape"),
    "unknown option": ("mlp", "mlp", ["--model-options", "depth=3"], "unexpected keyword argument 'depth'"),
    "no option": ("mlp", "mlp", ["--model-options", "depth"], "not of the form key=value"),
    "likelihood of a model": ("counts", "counts", ["--likelihood", "poisson"], "gives a Model with one:"),
    "unknown likelihood": ("mlp", "mlp", ["--likelihood", "cauchy"], "likelihood 'cauchy' is unknown"),
}  # fmt: skip


def shell(name, model, more, data, out):
    return [
        "smcda", "run", "--quiet", "--data", str(data / f"{name}.npz"), "--model", model, "--out", str(out),
        *more,
    ]  # fmt: skip


def assert_refused(words, found, folder):
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("smcda") and found in line, line
    assert not any(folder.iterdir()), "something is left behind"


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_with_a_model_is_one_line_and_nothing_is_left(case, data, tmp_path):
    name, factory, more, words = REFUSED[case]
    assert_refused(shell(name, f"{MODELS}:{factory}", more, data, tmp_path / "out"), words, tmp_path)


def test_what_is_wrong_with_data_or_a_file_is_one_line_and_nothing_is_left(data, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    with np.load(data / "mlp.npz") as whole:
        arrays = dict(whole)
    np.savez(tmp_path / "short.npz", **arrays | {"train_y": arrays["train_y"][:-1]})
    spoilt = arrays["train_x"].copy()
    spoilt[4, 2] = np.nan
    np.savez(tmp_path / "nan.npz", **arrays | {"train_x": spoilt})
    np.savez(tmp_path / "huge.npz", **arrays | {"train_y": np.full(len(spoilt), 1e39), "test_y": np.ones(80)})
    with np.load(data / "cnn.npz") as whole:
        classes = dict(whole)
    np.savez(tmp_path / "tested.npz", **classes | {"test_y": classes["test_y"] + 1})
    (tmp_path / "broken.py").write_text("def mlp(:\n")
    model = f"{MODELS}:mlp"
    for file, reference, words in (
        (tmp_path / "short", model, "there must be as many of each"),
        (tmp_path / "nan", model, "1 row has a value in train_x that is not finite, first row 4"),
        (tmp_path / "huge", model, "train_y has the value 1e+39, too large for float32"),
        (tmp_path / "tested", f"{MODELS}:cnn", "test labels 1 to 5, but 5 logits"),
        (data / "mlp", f"{tmp_path / 'none.py'}:mlp", "none.py is not a file"),
        (data / "mlp", f"{tmp_path / 'broken.py'}:mlp", "can't be imported: SyntaxError"),
        (data / "mlp", ":", "':' names no object: give file.py:name"),
        (data / "mlp", f"{MODELS}:", "names no object"),
        (data / "mlp", "no.such.package:mlp", "can't be imported: ModuleNotFoundError"),
    ):
        likelihood = "categorical" if file.name == "tested" else "gaussian"
        assert_refused(
            shell(file, reference, ["--likelihood", likelihood], file.parent, work / "out"), words, work
        )
