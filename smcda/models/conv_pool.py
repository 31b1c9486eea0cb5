r"""A convolution that stays fast when it is mapped over particles.

Mapped over particles (each with kernels of its own), a native convolution becomes a grouped one,
which CPUs and GPUs both do badly; a matrix product becomes a batched matrix product, which they do
well. So the convolution is written as one. Both networks pool 2x2 after each convolution, hence the
natural unit is a 2x2 *tile* of outputs: a k x k kernel needs a (k+1) x (k+1) patch of inputs for it,
which is a window of ((k+1)/2)^2 neighbouring 2x2 *blocks* of inputs. Folding blocks into channels
first makes every slice contiguous, patches overlap less than for single outputs, the product is four
times as wide, and pooling becomes a reduction over an axis of length four.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float


def fold_blocks(images: Float[Array, "image h w channel"]) -> Float[Array, "image h2 w2 blockchannel"]:
    """Move each 2x2 block of pixels into the channel axis."""
    n, height, width, channels = images.shape
    blocks = images.reshape(n, height // 2, 2, width // 2, 2, channels)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, height // 2, width // 2, 4 * channels)


def tile_kernel(kernel: Float[Array, "k k inp out"]) -> Float[Array, "patch tileout"]:
    """Spread an odd kernel over blocks: what each block of inputs adds to each output of a 2x2 tile."""
    size, _, n_in, n_out = kernel.shape
    shifts = [(row, column) for row in (0, 1) for column in (0, 1)]
    pads = [((row, 1 - row), (column, 1 - column), (0, 0), (0, 0)) for row, column in shifts]
    spread = jnp.stack([jnp.pad(kernel, pad) for pad in pads], axis=3)
    blocks = (size + 1) // 2
    spread = spread.reshape(blocks, 2, blocks, 2, n_in, 4 * n_out)
    return spread.transpose(0, 2, 1, 3, 4, 5).reshape(-1, 4 * n_out)


def tile_patches(
    images: Float[Array, "image h w channel"], kernel_size: int, padding: int
) -> Float[Array, "image h2 w2 patch"]:
    """The inputs of each 2x2 tile of outputs, in the order of `tile_kernel`."""
    images = jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    blocks = fold_blocks(images)
    span = (kernel_size + 1) // 2
    height, width = (length - span + 1 for length in blocks.shape[1:3])
    shifts = [blocks[:, i : i + height, j : j + width] for i in range(span) for j in range(span)]
    return jnp.concatenate(shifts, axis=3)


@jax.custom_vjp
def tanh_mean(tiles: Float[Array, "*any 4 out"]) -> Float[Array, "*any out"]:
    """Mean over each tile of the hyperbolic tangent, which the gradient takes again rather than stores."""
    return jnp.mean(jnp.tanh(tiles), axis=-2)


def _tanh_mean_forward(tiles: Array) -> tuple[Array, Array]:
    # Not by calling `tanh_mean` itself, so that gradients can be differentiated once more, forward.
    return jnp.mean(jnp.tanh(tiles), axis=-2), tiles


def _tanh_mean_backward(tiles: Array, gradient: Array) -> tuple[Array]:
    # Without the barrier XLA would find out that the tangents are known, and store them.
    tangents = jnp.tanh(jax.lax.optimization_barrier(tiles))
    return (gradient[..., None, :] / 4 * (1 - tangents**2),)


tanh_mean.defvjp(_tanh_mean_forward, _tanh_mean_backward)


@jax.custom_vjp
def tile_max(tiles: Float[Array, "*any 4 out"]) -> Float[Array, "*any out"]:
    """Maximum over each tile; for the gradient only who won is kept, in a byte.

    Equals share the gradient as they do in pairwise maxima.
    """
    return jnp.max(tiles, axis=-2)


def _tile_max_forward(tiles: Array) -> tuple[Array, Array]:
    first, second, third, fourth = (tiles[..., i, :] for i in range(4))
    upper, lower = jnp.maximum(first, second), jnp.maximum(third, fourth)
    winners = 9 * _winner(upper, lower) + 3 * _winner(first, second) + _winner(third, fourth)
    return jnp.maximum(upper, lower), winners.astype(jnp.uint8)


def _winner(one: Array, other: Array) -> Array:
    """0 for the one, 2 for the other, 1 for both."""
    return jnp.where(one > other, 0, jnp.where(one < other, 2, 1))


def _tile_max_backward(winners: Array, gradient: Array) -> tuple[Array]:
    halves = [(digit.astype(gradient.dtype) / 2) for digit in (winners // 9, winners // 3 % 3, winners % 3)]
    lower, second, fourth = halves
    shares = [(1 - lower) * (1 - second), (1 - lower) * second, lower * (1 - fourth), lower * fourth]
    return (jnp.stack([share * gradient for share in shares], axis=-2),)


tile_max.defvjp(_tile_max_forward, _tile_max_backward)


def normalised_max(
    tiles: Float[Array, "image h w 4 out"], n_reference: int = 0
) -> Float[Array, "image h w out"]:
    """Maximum over each tile, normalised by mean and variance of all tiles, or of the first `n_reference`.

    Normalising keeps the order of numbers, so that it may follow the maximum.
    """
    source = tiles[:n_reference] if n_reference else tiles
    mean, variance = jnp.mean(source, (0, 1, 2, 3)), jnp.var(source, (0, 1, 2, 3))
    return (tile_max(tiles) - mean) / jnp.sqrt(variance + 1e-5)


class ConvTanhMean(nn.Module):
    """Convolution with bias, tanh, 2x2 average pooling; parameters are those of ``nn.Conv``."""

    features: int
    kernel_size: int
    padding: int

    @nn.compact
    def __call__(self, images: Float[Array, "image h w channel"]) -> Float[Array, "image h2 w2 out"]:
        """Apply to a stack of images."""
        kernel, bias = _parameters(self, self.features, self.kernel_size, images.shape[-1])
        patches = tile_patches(images, self.kernel_size, self.padding)
        # The bias as one more weight: its gradient then comes with that of the others.
        patches = jnp.concatenate([patches, jnp.ones((*patches.shape[:3], 1), patches.dtype)], axis=3)
        weights = jnp.concatenate([tile_kernel(kernel), jnp.tile(bias, 4)[None]])
        return tanh_mean(_tiles(patches @ weights))


class ConvMaxTanh(nn.Module):
    """Convolution with bias, 2x2 maximum, tanh; parameters are those of ``nn.Conv``.

    With `batch_norm` the convolution's outputs are normalised over all images, or by the statistics of the
    first `n_reference` where there are any; normalising takes the bias away.
    """

    features: int
    kernel_size: int
    padding: int
    batch_norm: bool = False

    @nn.compact
    def __call__(
        self, images: Float[Array, "image h w channel"], n_reference: int = 0
    ) -> Float[Array, "image h2 w2 out"]:
        """Apply to a stack of images."""
        kernel, bias = _parameters(self, self.features, self.kernel_size, images.shape[-1])
        tiles = _tiles(tile_patches(images, self.kernel_size, self.padding) @ tile_kernel(kernel))
        # tanh and the bias keep the order of numbers too: a quarter as many of them.
        return jnp.tanh(normalised_max(tiles, n_reference) if self.batch_norm else tile_max(tiles) + bias)


def _parameters(layer: nn.Module, features: int, size: int, channels: int) -> tuple[Array, Array]:
    kernel = layer.param("kernel", nn.initializers.lecun_normal(), (size, size, channels, features))
    return kernel, layer.param("bias", nn.initializers.zeros_init(), (features,))


def _tiles(products: Float[Array, "image h2 w2 tileout"]) -> Float[Array, "image h2 w2 4 out"]:
    return products.reshape(*products.shape[:-1], 4, -1)
