"""What a result refuses, in one line: above all inputs that its model can't predict for.

Arguments of a wrong type are in `system/test_wrong_types.py`.
"""

import numpy as np
import pytest

from smcda import BadInput, Model, Result, SamplerConfig, likelihoods, priors, run

X = np.random.default_rng(1).normal(size=(40, 2)).astype(np.float32)
Y = X[:, 0]
MODEL = Model(lambda p, x: x["a"] @ p + x["b"][:, 0], likelihoods.gaussian(0.3), priors.normal(np.zeros(2)))


def inputs(a=X, b=X):
    return {"a": a, "b": b}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    result = run(MODEL, (inputs(), Y), SamplerConfig(particles=5, max_moves=1), progress=False)
    path = tmp_path_factory.mktemp("saved") / "result.npz"
    result.save(path)
    return path


@pytest.fixture(scope="module")
def loaded(path):
    return Result.load(path, MODEL)


CASES = {
    "other columns": (lambda it: it.predict(inputs(a=X[:, :1])), r"the model fails on float32 \(40, 1\)"),
    "wrong rank": (lambda it: it.predict(inputs(b=X[:, 0])), "the model fails on float32"),
    "text": (
        lambda it: it.predict(inputs(a=X.astype(str))),
        r"x\['a'\] is of type <U32, but must be numbers",
    ),
    "lists": (
        lambda it: it.predict(inputs(a=X.tolist())),
        r"x\['a'\]\[0\]\[0\] is of type float, but must be",
    ),
    "lengths": (lambda it: it.predict(inputs(b=X[:9])), r"x\['a'\] has 40 examples and x\['b'\] 9: give as"),
    "nothing": (lambda it: it.predict(None), "x has no array"),
    "seed": (lambda it: it.resample(3, seed=-1), "seed is -1, but must be a whole number"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_result_can_t_do_is_one_short_line(case, loaded):
    call, words = CASES[case]
    with pytest.raises(BadInput, match=words) as caught:
        call(loaded)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_lists_are_refused_in_one_short_line_where_the_data_are_known(path):
    known = Result.load(path, MODEL, (inputs(), Y))
    with pytest.raises(BadInput, match="is of type float, but must be an array") as caught:
        known.predict(inputs(b=X.tolist()))
    assert len(str(caught.value)) < 200


def test_other_byte_orders_are_predicted_for_and_no_examples_are_none(loaded):
    found, expected = loaded.predict(inputs(X.astype(">f4"))), loaded.predict(inputs())
    np.testing.assert_array_equal(found.mean, expected.mean)
    assert loaded.predict(inputs(X[:0], X[:0])).mean.shape == (0,)


def test_a_result_is_not_loaded_with_data_of_other_lengths(path):
    with pytest.raises(BadInput, match="x.* has 40 examples .*: give as many of each"):
        Result.load(path, MODEL, (inputs(), Y[:5]))
