"""The shapes of a pytree of dictionaries, lists and tuples as JSON, and back."""

from typing import Any

import jax
import numpy as np

from smcda.errors import BadInput


def to_json(shapes: Any) -> Any:
    """Describe a pytree of arrays or `jax.ShapeDtypeStruct` by its shapes."""
    if isinstance(shapes, dict):
        return {"dict": {key: to_json(value) for key, value in shapes.items()}}
    if type(shapes) in (list, tuple):
        return {type(shapes).__name__: [to_json(value) for value in shapes]}
    if hasattr(shapes, "shape"):
        return {"shape": list(shapes.shape)}
    # Any other kind of node, such as a NamedTuple: only a model can build it again.
    return {"other": [to_json(leaf) for leaf in jax.tree.leaves(shapes)]}


def from_json(described: Any) -> Any:
    """The pytree of shapes that was described."""
    ((kind, content),) = described.items()
    if kind == "dict":
        return {key: from_json(value) for key, value in content.items()}
    if kind in ("list", "other"):
        return [from_json(value) for value in content]
    if kind == "tuple":
        return tuple(from_json(value) for value in content)
    if kind == "shape" and all(isinstance(n, int) and n >= 0 for n in content):
        return jax.ShapeDtypeStruct(tuple(content), np.float32)
    raise BadInput(f"{kind!r} describes no parameters")
