"""Checks at the door: what is wrong with data or model is found, and named, before anything is computed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from smcda.errors import BadInput, Diverged
from smcda.models.base import Model
from smcda.models.flat import Flattened
from smcda.smc.batches import count


def check_data(x: Any, y: Any, split: str = "") -> tuple[Any, Any]:
    """The data as host arrays; refuses lengths that differ, none, and values that are not finite numbers."""
    data = {}
    for name, tree in (("x", x), ("y", y)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            data[f"{split}{name}{jax.tree_util.keystr(path)}"] = np.asarray(leaf)
    lengths = {name: len(array) if array.ndim else 0 for name, array in data.items()}
    if not any(name.startswith(f"{split}x") for name in data):
        raise BadInput(f"{split}x has no array: give inputs, one row per example")
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        (first, length), *others = lengths.items()
        rest = "".join(f" and {name} {length}" for name, length in others)
        raise BadInput(f"{first} has {length} examples{rest}: give as many of each, and at least one")
    for name, array in data.items():
        if not np.issubdtype(array.dtype, np.number) and array.dtype != bool:
            raise BadInput(f"{name} is of type {array.dtype}, but must be numbers: encode it")
        bad = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if bad.size:
            rows = "rows have" if bad.size > 1 else "row has"
            raise BadInput(
                f"{bad.size} {rows} a value in {name} that is not finite, first row {bad[0]}: remove it"
            )
    return jax.tree.map(np.asarray, (x, y))


def check_like(found: Any, known: Any, split: str = "") -> Any:
    """Arrays of the host, as the type of known ones; refuses examples of another structure or shape."""
    found = jax.tree.map(np.asarray, found)
    if jax.tree.structure(found) != jax.tree.structure(known):
        raise BadInput(
            f"{split}data are {jax.tree.structure(found)}, but the others {jax.tree.structure(known)}: "
            "give the same structure"
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


def check_model(model: Model, flat: Flattened, x: Any, y: Any, micro_batch: int) -> None:
    """Refuse outputs that do not fit the likelihood, and one that is not one number per example.

    Nothing is computed. An exception of the model's own code is reported in one line.
    """
    n = min(micro_batch, count(x))
    shapes = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((n, *a.shape[1:]), jax.dtypes.canonicalize_dtype(a.dtype)), (x, y)
    )
    particle = jax.ShapeDtypeStruct((flat.n_parameters,), jnp.float32)
    if model.predict is not None and model.likelihood is not None:
        outputs = _shape(lambda p, x: model.outputs(flat.unravel(p), x), particle, shapes[0])
        # Shapes of as many outputs as there are y, which are looked at as a whole.
        of_all = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(
                (count(y), *a.shape[1:]) if a.shape[:1] == (n,) else a.shape, a.dtype
            ),
            outputs,
        )
        if complaint := model.likelihood.check(of_all, y):
            raise BadInput(f"likelihood {model.likelihood.name}: {complaint}")
    found = _shape(lambda p, x, y: model.log_likelihood(flat.unravel(p), x, y), particle, *shapes)
    shape = getattr(found, "shape", None)
    if shape != (n,):
        raise BadInput(
            f"log_likelihood gives shape {shape} for {n} examples, but must give {(n,)}: "
            "one number per example, neither summed nor in a column"
        )


def _shape(function: Any, *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except BadInput:
        raise
    except Exception as error:  # the user's code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        short = reason if len(reason) <= 300 else f"{reason[:300]}..."
        raise BadInput(f"the model fails on {_described(arguments[1:])}: {short}") from error


def _described(arguments: Any) -> str:
    leaves = jax.tree.leaves(arguments)
    return " and ".join(f"{leaf.dtype} {leaf.shape}" for leaf in leaves)


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
