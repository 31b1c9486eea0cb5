"""A deep ensemble: as good as plain Adam training, chosen by validation only, counted as any run."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from sklearn.datasets import load_digits

from smcda import Model, Result, from_flax, likelihoods, priors
from smcda.baselines import EnsembleConfig, deep_ensemble
from smcda.baselines.epochs import split
from smcda.errors import BadInput

IMAGES, LABELS = load_digits(return_X_y=True)
X, Y = (IMAGES / 16).astype(np.float32), LABELS.astype(np.int32)
TRAIN, TEST = (X[:200], Y[:200]), (X[200:800], Y[200:800])


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.tanh(nn.Dense(32)(x)))


MODEL = from_flax(Mlp(), X[:1], likelihoods.categorical(), priors.fan_in())
PLAIN = EnsembleConfig(particles=3, epochs=60, learning_rate=0.01, weight_decay=(0.0,), validation=0.0)


def plain_training(seed):
    """Test accuracy of one network, trained by Flax and Optax alone."""
    module, optimiser = Mlp(), optax.adam(0.01)
    params = module.init(jax.random.key(seed), X[:1])
    state, random = optimiser.init(params), np.random.default_rng(seed)

    @jax.jit
    def step(params, state, x, y):
        def loss(params):
            return optax.softmax_cross_entropy_with_integer_labels(module.apply(params, x), y).mean()

        updates, state = optimiser.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    for _ in range(60):
        for rows in np.split(random.permutation(200), 4):
            params, state = step(params, state, TRAIN[0][rows], TRAIN[1][rows])
    return 100 * np.mean(np.argmax(module.apply(params, TEST[0]), axis=1) == TEST[1])


@pytest.mark.slow
def test_its_networks_are_as_accurate_as_by_plain_training_and_together_better():
    found = deep_ensemble(MODEL, TRAIN, PLAIN, test=TEST, progress=False).metrics
    plain = [plain_training(seed) for seed in range(3)]
    assert min(plain) > 80
    assert abs(found["particle_accuracy"] - np.mean(plain)) < 2
    assert found["test_accuracy"] >= found["particle_accuracy"]


def test_without_decay_and_in_one_batch_a_step_is_that_of_adam():
    start = np.array([2.0, -1.0], np.float32)
    point = priors.from_log_density(lambda key: {"slope": jnp.asarray(start)}, lambda a: 0.0)
    model = Model(lambda p, x: x @ p["slope"], likelihoods.gaussian(scale=1.0), point)
    x = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]], np.float32)
    y = np.array([1.0, 2.0, 0.0], np.float32)
    for weight_decay in (0.0, 2.0):
        given = EnsembleConfig(
            particles=2, epochs=5, learning_rate=0.1, weight_decay=(weight_decay,), validation=0.0
        )
        found = deep_ensemble(model, (x, y), given, progress=False).params["slope"]
        slope, first, second = start.astype(float), np.zeros(2), np.zeros(2)
        for t in range(1, 6):
            gradient = x.T.astype(float) @ (x @ slope - y) / 3
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            adam = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
            slope = slope - 0.1 * (adam + weight_decay * slope)
        np.testing.assert_allclose(found, [slope, slope], rtol=1e-5, atol=1e-5)


def test_decay_and_epochs_are_chosen_by_validation_and_the_search_is_counted():
    given = EnsembleConfig(
        particles=3, epochs=12, learning_rate=0.01, weight_decay=(0.0, 30.0), search_particles=2
    )
    found = deep_ensemble(MODEL, TRAIN, given, test=TEST, progress=False)
    metrics = found.metrics
    scores = [each["validation_log_likelihood"] for each in metrics["search"]]
    assert scores[0] > scores[1] and metrics["weight_decay"] == 0.0
    epochs = metrics["search"][0]["epochs"]
    assert metrics["iterations"] == len(found.trace["iteration"]) == epochs
    assert metrics["gradient_evaluations"] == 3 * 200 * epochs == found.trace["gradient_evaluations"][-1]
    assert metrics["search_gradient_evaluations"] == 2 * 2 * 160 * 12
    assert metrics["search_likelihood_evaluations"] == 2 * 2 * 40 * 12


@pytest.mark.slow
def test_test_data_decide_nothing():
    given = EnsembleConfig(particles=2, epochs=6, weight_decay=(0.0, 0.3), search_particles=2)
    wrong = TEST[0], (TEST[1] + 1) % 10
    runs = [deep_ensemble(MODEL, TRAIN, given, test=test, progress=False) for test in (TEST, wrong, None)]
    for other in runs[1:]:
        jax.tree.map(np.testing.assert_array_equal, runs[0].params, other.params)


def test_validation_examples_are_left_out_of_the_search():
    learn, validation = split(X[:50], np.arange(50), 0.2, 3)
    assert (len(learn[0]), len(validation[0])) == (40, 10)
    assert sorted([*learn[1], *validation[1]]) == list(range(50))
    np.testing.assert_array_equal(validation[0], X[validation[1]])


def test_a_best_score_at_the_end_of_what_was_tried_is_a_doubt(caplog):
    given = EnsembleConfig(particles=2, epochs=2, weight_decay=(1e-4, 1e-3), search_particles=2)
    with caplog.at_level("WARNING", "smcda"):
        found = deep_ensemble(MODEL, TRAIN, given, progress=False)
    assert "validation was best after the last of 2 epochs: raise epochs" in caplog.text
    assert {doubt.name for doubt in found.diagnostics} == {"search_too_short", "search_at_end"}


def test_the_files_are_those_of_a_run_and_the_result_predicts(tmp_path):
    given = EnsembleConfig(particles=2, epochs=4, weight_decay=(0.0,), validation=0.0, evaluate_every=2)
    ood = 1 - TEST[0][:100]
    made = deep_ensemble(MODEL, TRAIN, given, test=TEST, ood=ood, out=tmp_path / "e", progress=False)
    metrics = json.loads((tmp_path / "e" / "metrics.json").read_text())
    assert {"test_accuracy", "test_log_likelihood", "ece", "brier", "ood_auroc_entropy"} < metrics.keys()
    assert {"ood_auroc_mutual_information", "fingerprint", "machine", "commit", "versions"} < metrics.keys()
    assert (metrics["scheme"], metrics["log_evidence"]) == ("deep_ensemble", None)
    rows = (tmp_path / "e" / "trace.csv").read_text().splitlines()
    assert rows[0].startswith("iteration,log_likelihood,gradient_evaluations,runtime_s,test_")
    assert [bool(row.split(",")[-1]) for row in rows[1:]] == [False, True, False, True]
    loaded = Result.load(tmp_path / "e" / "posterior.npz", MODEL)
    np.testing.assert_allclose(loaded.predict(TEST[0][:9]), made.predict(TEST[0][:9]), rtol=1e-6)
    with pytest.raises(BadInput, match="holds a finished run"):
        deep_ensemble(MODEL, TRAIN, given, out=tmp_path / "e", progress=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": 0.0}, "validation is 0, but weight_decay has 4 candidates"),
        ({"weight_decay": (0.1, 0.1)}, "must name each candidate once"),
        ({"weight_decay": ()}, "at least one"),
        ({"weight_decay": (-1.0,)}, "weight_decay is -1.0, but must be a finite number of at least 0"),
        ({"particles": 1}, "particles is 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(BadInput, match=message):
        EnsembleConfig(**changes)


def test_a_batch_larger_than_the_data_is_refused():
    given = EnsembleConfig(batch_size=300)
    with pytest.raises(BadInput, match="batch_size is 300, more than the 200 training examples"):
        deep_ensemble(MODEL, TRAIN, given, progress=False)
