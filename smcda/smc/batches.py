"""The training data on the device: shuffled once, addressed by ranges of examples.

Every scheme asks for data in one of two ways: *append* (examples ``0 .. M_k`` of the shuffled order are in
use, and the range only grows) or *fresh* (the next C examples, epoch after epoch). Both are a range of
consecutive examples, so a minibatch is never a copy, and one compiled loop over slices of fixed length
serves every M_k. The stored order wraps around: a second copy of its beginning follows its end, so that a
fresh range may cross from one epoch into the next, and the last slice of a range that the slice length does
not divide has something to read (which is then masked).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped


class Window(NamedTuple):
    """Which examples are in use: ``[start, split)`` fully, ``[split, stop)`` to the power beta."""

    start: Int[Array, "..."]
    split: Int[Array, "..."]
    stop: Int[Array, "..."]
    beta: Float[Array, "..."]

    @property
    def size(self) -> Int[Array, "..."]:
        """M_k: the number of examples in use, old and new."""
        return self.stop - self.start


class ShuffledData(NamedTuple):
    """Shuffled examples, followed by a copy of their beginning, and how many there really are.

    Inputs and outputs are arrays or pytrees of arrays, one row per example; outputs may be None.
    """

    x: PyTree[Shaped[Array, "stored ..."]]
    y: PyTree[Shaped[Array, "stored ..."]]
    n_data: Int[Array, ""]


def to_device(x: Any, y: Any, *, seed: int | None, wraparound: int, n_old: int = 0) -> ShuffledData:
    """Put the data on the device, followed by their first `wraparound` examples.

    The order is drawn from `seed`; with None the data keep the order they have. The first `n_old` examples,
    which an earlier run has seen, stay before the others.
    """
    n_data = count(x)
    order = np.arange(n_data)
    if seed is not None:
        random = np.random.default_rng(seed)
        parts = [part for part in (order[:n_old], order[n_old:]) if part.size]
        order = np.concatenate([random.permutation(part) for part in parts])
    rows = order[np.arange(n_data + wraparound) % n_data]
    x, y = jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), (x, y))
    return ShuffledData(x, y, jnp.asarray(n_data, jnp.int32))


def count(x: Any) -> int:
    """How many examples there are."""
    return len(jax.tree.leaves(x)[0])


def read_slice(
    data: ShuffledData, first: Int[Array, ""], end: Int[Array, ""], length: int
) -> tuple[Any, Any, Bool[Array, " slice"]]:
    """Read `length` examples from `first` on, with a mask that is false from `end` on."""
    x, y = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, length), (data.x, data.y))
    return x, y, first + jnp.arange(length) < end


def n_slices(n_examples: Int[Array, ""], length: int) -> Int[Array, ""]:
    """How many slices of `length` cover `n_examples`."""
    return (n_examples + length - 1) // length
