r"""One change at a time to what the published text leaves open, to see which choice fits its table.

Each variant is one run of `constant` at the published settings, with one thing different from scale paper
(where the FashionMNIST network has batch normalisation). They are experiments: what they change is put
together here from the package's parts and is no option of it, unless users need it for something else.

    python workflow/scripts/variants.py --variant flat_prior --data F.npz --network lenet5 --kernel ld \
        --seed 0 --particles 4 --threads 1 --out F.json
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BOTH = ("lenet5", "fashion_cnn")
MINIBATCH = 500
CACHE = Path(".cache/compiled")


@dataclass(frozen=True)
class Variant:
    """What differs from the defaults, and for which networks that means anything."""

    what: str
    networks: tuple[str, ...] = BOTH
    kernels: tuple[str, ...] = ("ld", "hmc")
    settings: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    minibatch: str = "iteration"
    weighted: bool = True


VARIANTS = {
    "default": Variant("nothing changed"),
    **{f"particles_{j}": Variant(f"{j} particles", settings={"particles": j}) for j in (2, 8, 16, 32)},
    "no_batch_norm": Variant("no batch normalisation", networks=("fashion_cnn",), model="no_batch_norm"),
    "standardised": Variant("pixels of mean 0 and variance 1", model="standardised"),
    "flat_prior": Variant("prior scale 0.1 for every weight", model="flat_prior"),
    "max_pooling": Variant("max pooling in LeNet-5", networks=("lenet5",), model="max_pooling"),
    "batch_a_gradient": Variant("a fresh minibatch for every gradient", minibatch="gradient"),
    "batch_a_particle": Variant("a minibatch of its own for every particle", minibatch="particle"),
    "weight_target_previous": Variant(
        "start weighed by the previous target", settings={"weight_target": "previous"}
    ),
    "equal_weights": Variant("no weights, nothing resampled", weighted=False),
    # HMC takes four gradients an iteration where data are fresh, LD two.
    "ld_equal_gradients": Variant(
        "LD, as many gradients as HMC", kernels=("ld",), settings={"iterations": 400}
    ),
    "ld_2h": Variant("LD with 2h", kernels=("ld",), settings={"step_size": 0.004}),
    "ld_3h": Variant("LD with 3h", kernels=("ld",), settings={"step_size": 0.006}),
    "ld_3h_equal_gradients": Variant(
        "LD with 3h, as many gradients as HMC",
        kernels=("ld",),
        settings={"step_size": 0.006, "iterations": 400},
    ),
}


def main() -> None:
    """Make one run and write what it scored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--variant", required=True, choices=VARIANTS)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--network", required=True, choices=BOTH)
    parser.add_argument("--kernel", required=True, choices=("ld", "hmc"))
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--particles", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    os.environ["NPROC"] = str(options.threads)  # XLA reads it when it starts

    from smcda.errors import SmcdaError
    from smcda.files import write_text

    try:
        result = execute(options)
    except SmcdaError as error:
        sys.exit(f"variants: {error}")
    write_text(options.out, json.dumps(result, indent=2) + "\n")


def execute(options: argparse.Namespace) -> dict[str, Any]:
    """Sample and evaluate one variant."""
    import jax

    from smcda.datasets import load
    from smcda.predictive import Predictor, mapped, metrics
    from smcda.sampling import Run
    from smcda.settings import Settings

    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    variant = VARIANTS[options.variant]
    data = load(options.data)
    chosen = {"particles": options.particles, "iterations": options.iterations} | variant.settings
    model, compiled, minibatch = changed_model(variant.model, options.network, data)
    settings = Settings("constant", options.kernel, **chosen, micro_batch=minibatch)
    run = Run(
        model.log_likelihood,
        model.prior,
        data.train_x,
        data.train_y,
        settings,
        options.seed,
        window_sums=compiled and compiled.window_sums,
    )
    if variant.minibatch == "iteration" and variant.weighted:
        run.advance(settings.iterations)
        particles, log_weights = run.state.particles, run.state.log_weights
    else:
        how = (variant.minibatch, variant.weighted)
        particles, log_weights = sample_by_hand(run, settings, options.seed, *how)
    logits = compiled.logits if compiled else mapped(model.logits, run.algorithm.target)
    predictor = Predictor(logits, data.test_x, particles, log_weights)
    scores = metrics(predictor(particles, log_weights), data.test_y)
    return {
        "dataset": data.name,
        "variant": options.variant,
        "kernel": options.kernel,
        "seed": options.seed,
        "particles": settings.particles,
        "iterations": settings.iterations,
        "step_size": settings.step_size,
        "test_log_likelihood": scores["test_log_likelihood"],
        "test_accuracy": scores["test_accuracy"],
    }


def changed_model(change: str | None, network: str, data: Any) -> tuple[Any, Any, int | None]:
    """Put the network together with the one change asked for.

    Also gives its native code, where there is some, and the number of images that must stay together:
    a minibatch, where it is normalised by its own statistics.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from smcda import native
    from smcda.networks import NETWORKS, make_model
    from smcda.priors import gaussian

    if change == "max_pooling":
        return make_model(max_pooling_lenet5()), None, None
    normalised = network == "fashion_cnn" and change != "no_batch_norm"
    options = {"batch_norm": True} if normalised else {}
    reference = jnp.asarray(data.train_x[:MINIBATCH]) if normalised else None
    minibatch = MINIBATCH if normalised else None
    if change == "standardised":
        # The network divides by 255 itself.
        mean, std = data.train_x.mean() / 255, data.train_x.std() / 255

        def standardise(x: Any) -> Any:
            return 255 * (x.astype(jnp.float32) / 255 - mean) / std

        plain = make_model(
            NETWORKS[network](**options), None if reference is None else standardise(reference)
        )
        model = plain._replace(
            log_likelihood=lambda parameters, x, y: plain.log_likelihood(parameters, standardise(x), y),
            logits=lambda parameters, x: plain.logits(parameters, standardise(x)),
        )
        return model, None, minibatch
    model = make_model(NETWORKS[network](**options), reference)
    if change == "flat_prior":
        shapes = jax.eval_shape(model.prior.sample, jax.random.key(0))
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
        model = model._replace(prior=gaussian(zeros, jax.tree.map(lambda _: 0.1, shapes)))
    return model, native.load(network, reference), minibatch


def max_pooling_lenet5() -> Any:
    """Build LeNet-5 with the maximum of each tile in place of its mean."""
    import jax.numpy as jnp
    from flax import linen as nn

    from smcda.layers import ConvPool, maximum_of_tile

    class MaxPoolingLeNet5(nn.Module):
        """LeNet-5 otherwise."""

        @nn.compact
        def __call__(self, images: Any) -> Any:
            x = images[..., None].astype(jnp.float32) / 255
            for n_out, padding in ((6, 2), (16, 0)):
                x = ConvPool(n_out, 5, padding=padding, pool=maximum_of_tile, between=jnp.tanh)(x)
            x = x.reshape(len(x), -1)
            for width in (120, 84):
                x = jnp.tanh(nn.Dense(width)(x))
            return nn.Dense(10)(x)

    return MaxPoolingLeNet5()


def sample_by_hand(
    run: Any, settings: Any, seed: int, minibatch: str, weighted: bool = True
) -> tuple[Any, Any]:
    """The sampler once more, as a plain loop, with minibatches drawn an iteration, a gradient or a particle.

    With the latter two, a particle's log-likelihoods at both ends of a move come from different data, or
    from other data than its rivals': their noise goes into the weights. Not `weighted`, particles are
    chains that know nothing of each other, from first to last.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from smcda.minibatches import Window
    from smcda.resampling import effective_sample_size, multinomial, reweight
    from smcda.target import draw_prior, likelihood_sums, prior_log_ratio, target_gradient

    target, layout, batches = run.algorithm.target, run.algorithm.layout, run.batches
    n_data, size, h = int(batches.n_data), settings.batch_size, settings.step_size
    particles, n_particles = jnp.array(run.state.particles), settings.particles
    used = 0

    def next_window() -> Window:
        nonlocal used
        start, used = used % n_data, used + size
        whole = (jnp.asarray(at, jnp.int32) for at in (start, start + size, start + size))
        return Window(*whole, jnp.asarray(1.0, jnp.float32))

    @jax.jit
    def look(particles: Any, window: Window) -> tuple[Any, Any]:
        sums = likelihood_sums(target, particles, batches, window, *layout)
        return n_data / size * sums.value[0], target_gradient(target, particles, sums, window, batches.n_data)

    def evaluate(particles: Any, windows: list[Window]) -> tuple[Any, Any]:
        if minibatch != "particle":
            return look(particles, windows[0] if minibatch == "iteration" else next_window())
        parts = [look(particles[j : j + 1], window) for j, window in enumerate(windows)]
        return tuple(jnp.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    ratio = jax.jit(lambda a, b: prior_log_ratio(target, a, b))
    log_weights = run.state.log_weights
    key_start, key = jax.random.split(jax.random.key(seed))  # the run's own draws
    if not weighted:
        particles = draw_prior(jax.random.split(key_start)[0], target, n_particles)
        log_weights = jnp.full(n_particles, -np.log(n_particles))
    for k in range(settings.iterations):
        key_move, key_resample = jax.random.split(jax.random.fold_in(key, k))
        drawn = {"iteration": 1, "gradient": 0, "particle": n_particles}[minibatch]
        windows = [next_window() for _ in range(drawn)]
        value, gradient = evaluate(particles, windows)
        begin, before = particles, value
        momentum = first = jax.random.normal(key_move, particles.shape)
        for _ in range(settings.sweeps):
            momentum = momentum + h / 2 * gradient
            particles = particles + h * momentum
            value, gradient = evaluate(particles, windows)
            momentum = momentum + h / 2 * gradient
        if not weighted:
            continue
        kernel = jnp.sum((first - momentum) * (first + momentum), axis=1) / 2
        log_weights, _ = reweight(log_weights, value - before + ratio(particles, begin) + kernel)
        if effective_sample_size(log_weights) < n_particles / 2:
            particles = particles[multinomial(key_resample, jnp.exp(log_weights))]
            log_weights = jnp.full(n_particles, -np.log(n_particles))
    return particles, log_weights


if __name__ == "__main__":
    main()
