"""Matrix products of another precision, emulated on a CPU: operands are rounded, sums are not."""

from collections.abc import Callable
from typing import Any

import jax

INLINED = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call")
"""Calls of functions, in whose bodies there may be products."""


def to_tf32(x: Any) -> Any:
    """Round to the ten bits of mantissa that TF32 has."""
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=10)


def float32(product: Callable[..., Any], a: Any, b: Any) -> Any:
    """The product as it is."""
    return product(a, b)


def tf32(product: Callable[..., Any], a: Any, b: Any) -> Any:
    """One product of rounded operands."""
    return product(to_tf32(a), to_tf32(b))


def tf32x3(product: Callable[..., Any], a: Any, b: Any) -> Any:
    """Three products: of the rounded operands, and of each with what rounding took from the other."""
    high_a, high_b = to_tf32(a), to_tf32(b)
    low_a, low_b = to_tf32(a - high_a), to_tf32(b - high_b)
    return product(high_a, high_b) + (product(high_a, low_b) + product(low_a, high_b))


def with_products(function: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, derivatives inside it too, with all its matrix products replaced."""

    def replaced(*arguments: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        values = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments), replacement)
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    return replaced


def _evaluate(jaxpr: Any, constants: Any, arguments: Any, replacement: Callable[..., Any]) -> list[Any]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))
    for equation in jaxpr.eqns:
        # A literal has its value with it.
        values = [v.val if hasattr(v, "val") else known[v] for v in equation.invars]
        name, params = equation.primitive.name, equation.params
        if name == "dot_general":
            results = [replacement(lambda a, b, e=equation: e.primitive.bind(a, b, **e.params), *values)]
        elif name in INLINED:
            inner = params.get("jaxpr") or params["call_jaxpr"]
            results = _evaluate(inner.jaxpr, inner.consts, values, replacement)
        else:
            assert "dot_general" not in str(params), f"products inside {name} would not be seen"
            results = equation.primitive.bind(*values, **params)
            results = results if equation.primitive.multiple_results else [results]
        known |= dict(zip(equation.outvars, results, strict=True))
    return [v.val if hasattr(v, "val") else known[v] for v in jaxpr.outvars]
