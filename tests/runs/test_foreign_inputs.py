"""A run's `ood`: how well the predictive's uncertainty tells foreign inputs from test inputs."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from smcda import Model, SamplerConfig, likelihoods, priors
from smcda.config import RunConfig
from smcda.errors import BadInput
from smcda.runs.progress import silence
from smcda.runs.run import run
from smcda.runs.runner import execute

RNG = np.random.default_rng(1)
X = RNG.normal(size=(80, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
FAR = (X[:30] * [0.01, 1.0]).astype(np.float32)  # on the boundary, where nothing is sure
MODEL = Model(
    lambda p, x: x @ p["slope"], likelihoods.bernoulli(), {"slope": priors.normal(np.zeros(2), 3.0)}
)
CONFIG = SamplerConfig(particles=64)


def test_scores_are_those_of_the_particles_predictions():
    found = run(MODEL, (X, Y), CONFIG, test=(X[:50], Y[:50]), ood=FAR, progress=False)
    slope = np.asarray(found.params["slope"], float)

    def measures(x):
        p = 1 / (1 + np.exp(-slope @ x.T.astype(float)))

        def entropy(p):
            return -(p * np.log(p) + (1 - p) * np.log(1 - p))

        total = entropy(p.mean(axis=0))
        return {"entropy": total, "mutual_information": total - entropy(p).mean(axis=0)}

    known, foreign = measures(X[:50]), measures(FAR)
    for name in known:
        truth = np.repeat([0, 1], [50, 30])
        exact = roc_auc_score(truth, np.concatenate([known[name], foreign[name]]))
        assert found.metrics[f"ood_auroc_{name}"] == pytest.approx(exact, abs=2e-3), name
    assert found.metrics["ood_auroc_entropy"] > 0.9


def test_without_foreign_inputs_nothing_is_said_of_them():
    found = run(MODEL, (X, Y), CONFIG, test=(X[:50], Y[:50]), progress=False)
    assert not [name for name in found.metrics if name.startswith("ood")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": None}, "ood needs test data"),
        ({"ood": FAR[:, :1]}, r"ood examples have shape \(1,\), the others \(2,\)"),
        ({"ood": FAR * np.nan}, "not finite"),
        ({"model": Model.from_log_likelihood(lambda p, x, y: x @ p, priors.normal(np.zeros(2)))}, "has none"),
    ],
)
def test_foreign_inputs_of_which_nothing_can_be_said_are_refused(change, message):
    given = {"model": MODEL, "test": (X[:50], Y[:50]), "ood": FAR} | change
    with pytest.raises(BadInput, match=message):
        run(given.pop("model"), (X, Y), CONFIG, progress=False, **given)


@pytest.fixture
def files(tmp_path):
    for name, factor in (("known", 1), ("foreign", 5)):
        scaled = (X * factor).astype(np.float32)
        arrays = {"train_x": scaled, "train_y": Y, "test_x": scaled[:20], "test_y": Y[:20], "name": name}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    np.savez(tmp_path / "bare.npz", train_x=X, train_y=Y)
    return tmp_path


def make(x):
    del x
    return MODEL


def config(files, ood):
    sampler = SamplerConfig(particles=8, iterations=20)
    model = f"{__file__}:make"
    return RunConfig(files / "known.npz", model, files / "out", sampler=sampler, ood=files / ood)


def test_a_config_names_the_dataset_and_the_result_keeps_its_checksum(files):
    execute(config(files, "foreign.npz"), silence)
    metrics = json.loads((files / "out" / "metrics.json").read_text())
    assert metrics["ood"] == "foreign" and len(metrics["ood_sha256"]) == 64
    assert metrics["fingerprint"]["ood_sha256"] == metrics["ood_sha256"]
    assert 0 <= metrics["ood_auroc_mutual_information"] <= 1


def test_a_dataset_without_test_inputs_is_refused(files):
    with pytest.raises(BadInput, match=r"bare.npz has no test_x: choose a dataset that has"):
        execute(config(files, "bare.npz"), silence)
