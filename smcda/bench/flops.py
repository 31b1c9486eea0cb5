"""What a gradient has to compute: the useful arithmetic of each network, counted from its layers.

Only products that the networks are defined by count: a convolution's taps that fall on the image (those on
the zeros around it do not), and dense weights. Forward pass and weight gradient cost one product each, the
gradient of the input another, which the first layer does not need. Biases, tanh, pooling and softmax are
left out.
"""

from typing import NamedTuple


class Layer(NamedTuple):
    """Multiplications and additions of one image's forward pass, in pairs."""

    products: int


def convolution(size: int, kernel: int, padding: int, channels_in: int, channels_out: int) -> Layer:
    """Taps inside the image: along one axis ``outputs * kernel`` less those beyond either end."""
    outputs = size + 2 * padding - kernel + 1
    inside = outputs * kernel - padding * (padding + 1)
    return Layer(inside**2 * channels_in * channels_out)


def dense(units_in: int, units_out: int) -> Layer:
    """One product per weight."""
    return Layer(units_in * units_out)


LAYERS: dict[str, tuple[Layer, ...]] = {
    "lenet5": (
        convolution(28, 5, 2, 1, 6),
        convolution(14, 5, 0, 6, 16),
        dense(400, 120),
        dense(120, 84),
        dense(84, 10),
    ),
    "fashion_cnn": (
        convolution(28, 3, 1, 1, 8),
        convolution(14, 3, 1, 8, 16),
        dense(784, 120),
        dense(120, 10),
    ),
}


def gradient_flops(network: str) -> int:
    """Floating-point operations of the value and gradient of one particle on one image."""
    first, *others = (layer.products for layer in LAYERS[network])
    return 2 * (2 * first + 3 * sum(others))
