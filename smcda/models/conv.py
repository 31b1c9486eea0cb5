"""A convolution for networks that are sampled: any stride and padding, and fast when mapped over particles.

``vmap`` makes a grouped convolution of ``nn.Conv``, which CPUs and GPUs do slowly, gradients above all. As a
matrix product over patches it becomes a batched product, which they do well; inputs that all particles share,
those of the first layer, are multiplied by all kernels at once. The price is memory: an input is copied as
often as windows overlap it.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Float


class Conv(nn.Module):
    """Two-dimensional convolution in place of ``nn.Conv``, with its parameters, defaults and results.

    Attributes:
        features: channels of the output.
        kernel_size: height and width.
        strides: rows and columns from one window to the next.
        padding: ``SAME``, ``VALID``, or rows and columns to add before and after.
        use_bias: whether a bias is added.

    """

    features: int
    kernel_size: Sequence[int]
    strides: int | Sequence[int] = 1
    padding: str | Sequence[tuple[int, int]] = "SAME"
    use_bias: bool = True

    @nn.compact
    def __call__(self, images: Float[Array, "image h w channel"]) -> Float[Array, "image h2 w2 out"]:
        """Apply to a stack of images."""
        strides = (self.strides, self.strides) if isinstance(self.strides, int) else tuple(self.strides)
        shape = (*self.kernel_size, images.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        outputs = patches(images, self.kernel_size, strides, self.padding) @ kernel.reshape(-1, self.features)
        if self.use_bias:
            outputs = outputs + self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return outputs


def patches(
    images: Float[Array, "image h w channel"],
    size: Sequence[int],
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
) -> Float[Array, "image h2 w2 patch"]:
    """The inputs of every window, in the order of a kernel's entries."""
    pads: Any = padding
    if isinstance(padding, str):
        pads = lax.padtype_to_pads(images.shape[1:3], size, strides, padding)
    images = jnp.pad(images, ((0, 0), *pads, (0, 0)))
    ends = [length - k + 1 for length, k in zip(images.shape[1:3], size, strict=True)]
    windows = [
        images[:, row : row + ends[0] : strides[0], column : column + ends[1] : strides[1]]
        for row in range(size[0])
        for column in range(size[1])
    ]
    return jnp.concatenate(windows, axis=-1)
