"""A Flax module, of linen or of nnx, as a `Model`."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from smcda._plugins import call
from smcda.errors import BadInput
from smcda.models.base import FastCode, Model
from smcda.models.flat import Parameters, Shapes, described
from smcda.models.likelihoods import Likelihood
from smcda.models.priors import PriorLike, fit

if TYPE_CHECKING:
    from flax import nnx

    Module = linen.Module | nnx.Module
else:
    Module = Any  # importing nnx takes a third as long as JAX, and the built-in networks do without


def is_nnx(module: Any) -> bool:
    """Whether it is a module of `flax.nnx`, which whoever made one has imported."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(module, nnx.Module)


def from_flax(
    module: Module,
    example_x: Any,
    likelihood: Likelihood,
    prior: PriorLike,
    *test_arguments: Any,
    native: Callable[[], FastCode] | None = None,
    minibatch: int | None = None,
) -> Model:
    """Make a `Model` of a Flax module.

    Args:
        module: of `flax.linen`, or an instance of an `flax.nnx` one, whose own parameter values do not count.
        example_x: some inputs, or arrays of their shape; the number of examples does not matter.
        likelihood: what the module's outputs mean, such as ``likelihoods.categorical()``.
        prior: over the module's parameters. Scalars extend to all weights: ``priors.normal(scale=0.1)``.
        *test_arguments: follow x when the module predicts (batch normalisation).
        native: as of `Model`.
        minibatch: as of `Model`.

    """
    shapes, apply = parameters_of(module, example_x)

    def predict(parameters: Parameters, x: Any) -> Any:
        return apply(parameters, x, *test_arguments)

    return Model(
        predict,
        likelihood,
        fit(prior, shapes),
        predict_in_training=apply if test_arguments else None,
        native=native,
        minibatch=minibatch,
    )


def parameters_of(module: Module, example_x: Any) -> tuple[Shapes, Callable[..., Any]]:
    """Shapes of a module's parameters, and ``(parameters, x, ...) -> outputs``; nothing is computed."""
    if is_nnx(module):
        return _of_nnx(module)
    if not isinstance(module, linen.Module):
        if isinstance(module, type):
            raise BadInput(f"{module.__name__} is a class, but must be a module of it: {module.__name__}()")
        raise BadInput(f"{type(module).__name__} is not a Flax module: give one of flax.linen or flax.nnx")
    example = jax.tree.map(_one_like, example_x)
    what = f"{type(module).__name__} of {described(example)}"
    variables = call(what, jax.eval_shape, module.init, jax.random.key(0), example)
    if others := [name for name in variables if name != "params"]:
        raise BadInput(
            f"{type(module).__name__} keeps {', '.join(others)} beside its parameters, which "
            "a sampler can't: use a module without (no running averages)"
        )
    if not jax.tree.leaves(variables):
        raise BadInput(f"{type(module).__name__} has no parameters: there is nothing to sample")
    return variables["params"], lambda parameters, *x: module.apply({"params": parameters}, *x)


def _one_like(examples: Any) -> jax.ShapeDtypeStruct:
    if not getattr(examples, "shape", ()):
        raise BadInput(
            f"example_x has a {type(examples).__name__}, but must be an array with one row per example: "
            "use numpy.asarray"
        )
    # A data frame has a type per column.
    kind = examples.dtype if hasattr(examples, "dtype") else np.asarray(examples).dtype
    if not (jnp.issubdtype(kind, np.number) or jnp.issubdtype(kind, np.bool_)):
        raise BadInput(f"example_x is of type {kind}, but must be numbers: encode it")
    return jax.ShapeDtypeStruct(
        (1, *examples.shape[1:]), jax.dtypes.canonicalize_dtype(np.dtype(kind).newbyteorder("="))
    )


def _of_nnx(module: Any) -> tuple[Shapes, Callable[..., Any]]:
    from flax import nnx

    graph, state, rest = nnx.split(module, nnx.Param, ...)
    values = nnx.to_pure_dict(state)
    if not jax.tree.leaves(values):
        raise BadInput(f"{type(module).__name__} has no parameters: there is nothing to sample")
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), values)

    def apply(parameters: Parameters, *x: Any) -> Any:
        filled = jax.tree.map(lambda leaf: leaf, state)
        nnx.replace_by_pure_dict(filled, parameters)
        return nnx.merge(graph, filled, rest)(*x)  # pyright: ignore[reportCallIssue]

    return shapes, apply
