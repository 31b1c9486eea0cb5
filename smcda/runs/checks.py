"""Checks at the door: what is wrong with data or model is found, and named, before anything is computed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda._plugins import call, one_line
from smcda.errors import BadInput, Diverged
from smcda.models.base import Model
from smcda.models.flat import Flattened, described, flattened
from smcda.models.priors import Prior
from smcda.models.starts import Start
from smcda.smc.batches import count


def check_data(x: Any, y: Any, split: str = "") -> tuple[Any, Any]:
    """The data as host arrays; refuses lengths that differ, none, and values that are not finite numbers."""
    data = _arrays({f"{split}x": x, f"{split}y": y})
    _check_lengths(data, least=1)
    for name, array in data.items():
        _check_type(name, array)
        bad = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if bad.size:
            rows = "rows have" if bad.size > 1 else "row has"
            raise BadInput(
                f"{bad.size} {rows} a value in {name} that is not finite, first row {bad[0]}: remove it"
            )
        _check_range(name, array)
    return jax.tree.unflatten(jax.tree.structure((x, y)), list(data.values()))


def _arrays(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """The leaves of inputs and perhaps outputs as host arrays, by their names."""
    data = {}
    for tree in trees:
        leaves = jax.tree_util.tree_leaves_with_path(trees[tree])
        named = {f"{tree}{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves}
        data |= {name: _array(name, leaf) for name, leaf in named.items()}
        if not data:
            raise BadInput(f"{tree} has no array: give inputs, one row per example")
    return data


def _check_lengths(data: dict[str, np.ndarray], least: int = 0) -> None:
    lengths = {name: len(array) for name, array in data.items()}
    if len(set(lengths.values())) != 1 or min(lengths.values()) < least:
        (first, length), *others = lengths.items()
        rest = "".join(f" and {name} {length}" for name, length in others)
        raise BadInput(
            f"{first} has {length} examples{rest}: give as many of each" + ", and at least one" * least
        )


def _array(name: str, leaf: Any) -> np.ndarray:
    if np.ma.is_masked(leaf):
        raise BadInput(f"{name} has masked values, which would be taken as they are: fill or remove them")
    array = np.asarray(leaf)
    if array.ndim == 0:
        raise BadInput(
            f"{name} is of type {type(leaf).__name__}, but must be an array with one row per example: "
            "use numpy.asarray"
        )
    # Files such as FITS have another byte order, which JAX does not take.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_type(name: str, array: np.ndarray) -> None:
    # Asked of JAX, which also knows bfloat16.
    if not jnp.issubdtype(array.dtype, np.number) and array.dtype != bool:
        raise BadInput(f"{name} is of type {array.dtype}, but must be numbers: encode it")
    if array.dtype.itemsize > {"f": 8, "c": 16}.get(array.dtype.kind, array.dtype.itemsize):
        raise BadInput(f"{name} is of type {array.dtype}, which JAX does not have: convert it to float64")


def _check_range(name: str, array: np.ndarray) -> None:
    """Refuse numbers that JAX would make others of: without x64 it has 32 bits for each."""
    kind = jax.dtypes.canonicalize_dtype(array.dtype)
    if kind == array.dtype or array.dtype.kind not in "iuf":
        return
    limits: Any = np.iinfo(kind) if np.issubdtype(kind, np.integer) else np.finfo(kind)
    for value in (array.max(), array.min()):
        if not limits.min <= value <= limits.max:
            raise BadInput(f"{name} has the value {value}, too large for {kind}: rescale it, or use floats")


def check_distributions(model: Model, start: Start | None = None) -> None:
    """Refuse a prior or start that draws no floating-point numbers, or whose density is not one number."""
    _check_distribution("prior", model.joint_prior)
    if start is not None:
        _check_distribution("start", start)


def _check_distribution(what: str, distribution: Prior | Start) -> None:
    drawn = call(f"drawing from the {what}", jax.eval_shape, lambda: distribution.sample(jax.random.key(0)))
    leaves = jax.tree.leaves(drawn)
    if not sum(leaf.size for leaf in leaves):
        raise BadInput(f"the {what} draws no parameters: there is nothing to sample")
    for leaf in leaves:
        if not np.issubdtype(leaf.dtype, np.floating):
            raise BadInput(f"the {what} draws {leaf.dtype}, but parameters must be floating-point numbers")
    if distribution.log_density is None:
        return
    density = call(f"the log-density of the {what}", jax.eval_shape, distribution.log_density, drawn)
    if getattr(density, "shape", None) != () or not np.issubdtype(density.dtype, np.floating):
        raise BadInput(
            f"the log-density of the {what} gives {described(density)}, but must give one floating-point "
            "number: sum it"
        )


def check_test(model: Model, train: tuple[Any, Any], test: tuple[Any, Any]) -> None:
    """Refuse test examples that do not fit the likelihood, and before that such training examples."""
    check_distributions(model)
    flat, n_train = flattened(model.joint_prior), count(train[0])
    _check_outputs(model, flat, *train, n=model.minibatch or min(n_train, 50))
    _check_outputs(model, flat, *test, n=count(test[0]), split="test ")


def check_like(found: Any, known: Any, split: str = "") -> Any:
    """Arrays of the host, as the type of known ones; refuses examples of another structure or shape."""
    found = jax.tree.map(np.asarray, found)
    if jax.tree.structure(found) != jax.tree.structure(known):
        raise BadInput(
            f"{split}data are {_names(found)}, but the others {_names(known)}: give the same tree of arrays"
        )
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(known), strict=True)
    for one, other in pairs:
        if one.shape[1:] != other.shape[1:]:
            raise BadInput(
                f"{split}examples have shape {one.shape[1:]}, the others {other.shape[1:]}: they must agree"
            )
        if not np.issubdtype(other.dtype, np.floating) and not np.array_equal(one.astype(other.dtype), one):
            raise BadInput(f"{split}examples are not of type {other.dtype}, as the others are: convert them")
    return jax.tree.map(lambda a, b: a.astype(b.dtype), found, known)


def _names(tree: Any) -> str:
    """The arrays of a tree by their places in it."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return ", ".join(jax.tree_util.keystr(path) or "an array" for path in paths) or "no arrays"


def check_foreign(model: Model, x: Any, test: Any, foreign: Any) -> Any:
    """Foreign inputs, like the others in shape; refuses them where nothing could be said of them."""
    if foreign is None:
        return None
    if model.likelihood is None or model.likelihood.uncertainty is None:
        name = "none" if model.likelihood is None else model.likelihood.name
        raise BadInput(f"ood needs a likelihood of classes, but this model has {name}: leave it out")
    if test is None:
        raise BadInput("ood needs test data to tell foreign inputs from: give them, or leave it out")
    foreign, _ = check_data(foreign, None, "ood ")
    return check_like(foreign, x, "ood ")


def check_inputs(model: Model, x: Any, known: Any = None) -> Any:
    """Inputs to predict for, as host arrays; refuses what is unlike known ones, or the model can't take."""
    arrays = _arrays({"x": x})
    for name, array in arrays.items():
        _check_type(name, array)
    _check_lengths(arrays)
    x = jax.tree.unflatten(jax.tree.structure(x), list(arrays.values()))
    x = x if known is None else check_like(x, known)
    flat = flattened(model.joint_prior)
    _shape(lambda p, x: model.outputs(flat.unravel(p), x), flat, _first(x, max(1, count(x))))
    return x


def check_model(model: Model, flat: Flattened, x: Any, y: Any, micro_batch: int) -> None:
    """Refuse outputs that do not fit the likelihood, and one that is not one number per example.

    Nothing is computed. An exception of the model's own code is reported in one line.
    """
    n = min(micro_batch, count(x))
    _check_outputs(model, flat, x, y, n)
    found = _shape(lambda p, x, y: model.log_likelihood(flat.unravel(p), x, y), flat, *_first((x, y), n))
    shape = getattr(found, "shape", None)
    if shape != (n,):
        raise BadInput(
            f"log_likelihood gives shape {shape} for {n} examples, but must give {(n,)}: "
            "one number per example, neither summed nor in a column"
        )
    if not np.issubdtype(found.dtype, np.floating):
        raise BadInput(f"log_likelihood gives {found.dtype}, but must give floating-point numbers")


def _check_outputs(model: Model, flat: Flattened, x: Any, y: Any, n: int, split: str = "") -> None:
    """Refuse outputs for slices of `n` examples that do not fit the likelihood."""
    if model.likelihood is None:
        return
    outputs = _shape(lambda p, x: model.outputs(flat.unravel(p), x), flat, _first(x, n))
    # Shapes of as many outputs as there are y, which are looked at as a whole.
    of_all = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((count(x), *a.shape[1:]) if a.shape[:1] == (n,) else a.shape, a.dtype),
        outputs,
    )
    if complaint := model.likelihood.check(of_all, y):
        raise BadInput(f"likelihood {model.likelihood.name}: {split}{complaint}")


def _first(examples: Any, n: int) -> Any:
    """Shapes and types of `n` examples, as they are on the device."""
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((n, *a.shape[1:]), jax.dtypes.canonicalize_dtype(a.dtype)), examples
    )


def _shape(function: Any, flat: Flattened, *examples: Any) -> Any:
    particle = jax.ShapeDtypeStruct((flat.n_parameters,), jnp.float32)
    try:
        return jax.eval_shape(function, particle, *examples)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadInput(f"the model fails on {described(examples)}: {one_line(error)}") from error


def check_first_draws(
    draws: np.ndarray, prior_has_gradient: bool, values: np.ndarray, gradients: np.ndarray
) -> None:
    """Refuse a start from which no particle could move; no step size is to blame, nothing has moved yet."""
    if not np.isfinite(draws).all():
        bad = int(np.sum(~np.isfinite(draws).all(axis=1)))
        raise BadInput(f"{bad} of {len(draws)} draws from the prior are not finite: check how it is sampled")
    if not prior_has_gradient:
        raise BadInput(
            "the gradient of the prior's log-density is not finite where the prior itself draws: check "
            "log_density for sqrt, log or where at the edge of its domain"
        )
    finite = np.isfinite(values).all(axis=0)
    if not finite.any():
        raise Diverged(
            "no particle drawn from the prior has a finite log-likelihood: check the data, "
            "the log-likelihood and the prior's scale"
        )
    if not np.isfinite(gradients[:, finite]).all(axis=(0, 2)).any():
        raise Diverged(
            "the log-likelihood of the particles drawn from the prior is finite, but its gradient is not: "
            "check it for sqrt, log or where at the edge of their domain"
        )
