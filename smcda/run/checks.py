"""Checks at the door: what is wrong with data or model is found, and named, before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np

from smcda.errors import BadInput, Diverged
from smcda.models.base import Model
from smcda.models.priors import Flattened


def check_data(x: np.ndarray, y: np.ndarray) -> None:
    """Refuse data of two lengths, none, or with values that are not finite."""
    if len(x) != len(y) or len(x) == 0:
        raise BadInput(f"x has {len(x)} examples and y {len(y)}: give as many of each, and at least one")
    for name, array in (("x", x), ("y", y)):
        if not np.issubdtype(array.dtype, np.number) and array.dtype != bool:
            raise BadInput(f"{name} is of type {array.dtype}, but must be numbers: encode it")
        bad = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if bad.size:
            rows = "rows have" if bad.size > 1 else "row has"
            raise BadInput(
                f"{bad.size} {rows} a value in {name} that is not finite, first row {bad[0]}: remove it"
            )


def check_shape(model: Model, flat: Flattened, x: np.ndarray, y: np.ndarray) -> None:
    """Refuse a log-likelihood that is not one number per example; nothing is computed."""
    shapes = [jax.ShapeDtypeStruct(a.shape, jax.dtypes.canonicalize_dtype(a.dtype)) for a in (x, y)]
    particle = jax.ShapeDtypeStruct((flat.n_parameters,), jnp.float32)
    found = jax.eval_shape(lambda p, x, y: model.log_likelihood(flat.unravel(p), x, y), particle, *shapes)
    shape = getattr(found, "shape", None)
    if shape != (len(x),):
        raise BadInput(
            f"log_likelihood gives shape {shape} for {len(x)} examples, but must give {(len(x),)}: "
            "one number per example, neither summed nor in a column"
        )


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
