r"""How sharp the mean loss is along a run of `constant`, against what leapfrog can bear.

On a quadratic, leapfrog with step h stays bounded only while ``h^2 N lambda < 4``, lambda being the largest
eigenvalue of the Hessian of the mean loss; beyond it every step multiplies the error. That holds
for any number of steps, so that LD and HMC have the limit in common, and LD with 3h a ninth of it.
The eigenvalue is found by power iteration on products of the Hessian with a vector, for the particle with the
largest weight.

    python workflow/scripts/curvature.py --data F.npz --network lenet5 --kernel hmc --seed 0 --out F.csv
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from variants import VARIANTS, build, run_parser, write_result

if TYPE_CHECKING:
    from jaxtyping import Array

COLUMNS = ("dataset", "kernel", "seed", "particles", "iteration", "step_size", "n_train", "eigenvalue")
IMAGES, SLICE = 2_000, 500  # a slice is a minibatch, where that is normalised by its own statistics
LOOKS, PRODUCTS = 10, 25


def largest_eigenvalue(loss: Callable[["Array"], Any], at: "Array", start: "Array") -> tuple[Any, "Array"]:
    """Largest eigenvalue, by magnitude, of the Hessian of `loss`, and its vector, from `start` on."""
    import jax
    import jax.numpy as jnp

    def turn(_: int, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        vector, _ = carry
        vector = vector / jnp.linalg.norm(vector)
        product = jax.jvp(jax.grad(loss), (at,), (vector,))[1]
        return product, vector @ product

    product, value = jax.lax.fori_loop(0, PRODUCTS, turn, (start, jnp.zeros(())))
    return value, product


def follow(options: argparse.Namespace) -> str:
    """Sample, and look at the curvature before the first iteration and ten times on the way."""
    import jax
    import jax.numpy as jnp

    run, settings, data, model, _ = build(VARIANTS["default"], options)
    unravel = run.algorithm.target.unravel
    size = min(SLICE, len(data.train_x))
    n_slices = min(IMAGES, len(data.train_x)) // size
    shape = (n_slices, size)
    x = jnp.asarray(data.train_x[: n_slices * size]).reshape(*shape, 28, 28)
    y = jnp.asarray(data.train_y[: n_slices * size]).reshape(shape)

    def mean_loss(flat: Any) -> Any:
        def slice_loss(part: tuple[Any, Any]) -> Any:
            return -jnp.mean(model.log_likelihood(unravel(flat), *part))

        return jnp.mean(jax.lax.map(slice_loss, (x, y)))

    look = jax.jit(lambda at, start: largest_eigenvalue(mean_loss, at, start))
    vector = jax.random.normal(jax.random.key(options.seed), run.state.particles[0].shape)
    lines = [",".join(COLUMNS)]
    every = max(1, settings.iterations // LOOKS)
    for until in range(0, settings.iterations + 1, every):
        run.advance(until - run.iteration)
        best = run.state.particles[jnp.argmax(run.state.log_weights)]
        value, vector = look(best, vector)
        row = (data.name, options.kernel, options.seed, settings.particles, until, settings.step_size)
        lines.append(",".join(map(str, (*row, len(data.train_x), f"{float(value):.6g}"))))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_result("curvature", run_parser(__doc__).parse_args(), follow)
