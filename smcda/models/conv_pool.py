r"""A convolution that stays fast when it is mapped over particles.

Mapped over particles (each with kernels of its own), a native convolution becomes a grouped one,
which CPUs and GPUs both do badly; a matrix product becomes a batched matrix product, which they do
well. So the convolution is written as one. Both networks pool 2x2 after each convolution, hence the
natural unit is a 2x2 *tile* of outputs: a k x k kernel needs a (k+1) x (k+1) patch of inputs for it,
which is a window of ((k+1)/2)^2 neighbouring 2x2 *blocks* of inputs. Folding blocks into channels
first makes every slice contiguous, patches overlap less than for single outputs, the product is four
times as wide, and pooling becomes a reduction over an axis of length four.
"""

from collections.abc import Callable

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

# Below this many inputs per kernel row, one product for the whole kernel beats one per row (measured).
_WIDE_ENOUGH = 32


def fold_blocks(images: Float[Array, "image h w channel"]) -> Float[Array, "image h2 w2 blockchannel"]:
    """Move each 2x2 block of pixels into the channel axis."""
    n, height, width, channels = images.shape
    blocks = images.reshape(n, height // 2, 2, width // 2, 2, channels)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, height // 2, width // 2, 4 * channels)


def tile_kernel(kernel: Float[Array, "k k inp out"]) -> Float[Array, "b b blockinp tileout"]:
    """Spread an odd kernel over blocks: what each block of inputs adds to each output of a 2x2 tile."""
    size, _, n_in, n_out = kernel.shape
    shifts = [(row, column) for row in (0, 1) for column in (0, 1)]
    pads = [((row, 1 - row), (column, 1 - column), (0, 0), (0, 0)) for row, column in shifts]
    spread = jnp.stack([jnp.pad(kernel, pad) for pad in pads], axis=3)
    blocks = (size + 1) // 2
    spread = spread.reshape(blocks, 2, blocks, 2, n_in, 4 * n_out)
    return spread.transpose(0, 2, 1, 3, 4, 5).reshape(blocks, blocks, 4 * n_in, 4 * n_out)


def convolve_tiles(
    images: Float[Array, "image h w channel"], kernel: Float[Array, "k k channel out"], padding: int
) -> Float[Array, "image h2 w2 4 out"]:
    """Convolve with stride 1; outputs come as 2x2 tiles. Equal to a plain convolution, to rounding."""
    images = jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    blocks = fold_blocks(images)
    weights = tile_kernel(kernel)
    span = len(weights)
    height, width = blocks.shape[1] - span + 1, blocks.shape[2] - span + 1
    rows = jnp.concatenate([blocks[:, :, j : j + width] for j in range(span)], axis=3)
    weights = weights.reshape(span, -1, weights.shape[-1])
    if rows.shape[-1] >= _WIDE_ENOUGH:
        outputs = sum(rows[:, i : i + height] @ weights[i] for i in range(span))
    else:
        patches = jnp.concatenate([rows[:, i : i + height] for i in range(span)], axis=3)
        outputs = patches @ weights.reshape(-1, weights.shape[-1])
    return jnp.asarray(outputs).reshape(*outputs.shape[:-1], 4, kernel.shape[-1])  # type: ignore[union-attr]


def avg_pool_tile(tiles: Float[Array, "*any 4 out"]) -> Float[Array, "*any out"]:
    """2x2 average pooling."""
    return jnp.mean(tiles, axis=-2)


def max_pool_tile(tiles: Float[Array, "*any 4 out"]) -> Float[Array, "*any out"]:
    """2x2 max pooling; the gradient of pairwise maxima is cheaper than that of a reduction."""
    first, second, third, fourth = (tiles[..., i, :] for i in range(4))
    return jnp.maximum(jnp.maximum(first, second), jnp.maximum(third, fourth))


class ConvPool(nn.Module):
    """Convolution with bias, 2x2 pooling over tiles; `activation` acts on tiles before the pooling.

    Parameters are those of ``nn.Conv``: ``kernel`` (k, k, in, out) and ``bias`` (out).
    """

    features: int
    kernel_size: int
    padding: int
    pool: Callable[[Array], Array]
    activation: Callable[[Array], Array]

    @nn.compact
    def __call__(self, images: Float[Array, "image h w channel"]) -> Float[Array, "image h2 w2 out"]:
        """Apply to a stack of images."""
        shape = (self.kernel_size, self.kernel_size, images.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))
        return self.pool(self.activation(convolve_tiles(images, kernel, self.padding) + bias))
