r"""One change at a time to what the published text leaves open, to see which choice fits its table.

Each variant is one run of `constant` at the published settings, with one thing different from what the study
itself has (`--prior-scale`, `--batch-norm`). They are experiments: what they change is put together
here from the package's parts and is no option of it, unless users need it for something else.

    python workflow/scripts/variants.py --variant standardised --data F.npz --network lenet5 --kernel ld \
        --seed 0 --particles 4 --prior-scale 0.1 --threads 1 --out F.json
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

BOTH = ("lenet5", "fashion_cnn")
CACHE = Path(".cache/compiled")


@dataclass(frozen=True)
class Variant:
    """What differs from the study, or from the variant `beside` it, and where that means anything."""

    what: str
    networks: tuple[str, ...] = BOTH
    kernels: tuple[str, ...] = ("ld", "hmc")
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    minibatch: str = "iteration"
    weighted: bool = True
    beside: str = "default"


VARIANTS = {
    "default": Variant("nothing changed"),  # the study's own runs of `constant`
    **{f"particles_{j}": Variant(f"{j} particles", settings={"particles": j}) for j in (2, 8, 16, 32, 100)},
    "no_batch_norm": Variant(
        "no batch normalisation", networks=("fashion_cnn",), model={"batch_norm": False}
    ),
    "standardised": Variant("pixels of mean 0 and variance 1", model={"standardised": True}),
    "fan_in_prior": Variant("prior variance 1/fan-in a layer", model={"prior_scale": None}),
    "fan_in_prior_no_batch_norm": Variant(
        "that, and no batch normalisation",
        networks=("fashion_cnn",),
        model={"prior_scale": None, "batch_norm": False},
        beside="fan_in_prior",
    ),
    "prior_scale_0.05": Variant("prior scale 0.05 for every weight", model={"prior_scale": 0.05}),
    "prior_scale_0.2": Variant("prior scale 0.2 for every weight", model={"prior_scale": 0.2}),
    "max_pooling": Variant("max pooling in LeNet-5", networks=("lenet5",), model={"max_pooling": True}),
    "batch_a_gradient": Variant("a fresh minibatch for every gradient", minibatch="gradient"),
    "batch_a_particle": Variant("a minibatch of its own for every particle", minibatch="particle"),
    "weight_target_previous": Variant(
        "start weighed by the previous target", settings={"weight_target": "previous"}
    ),
    "equal_weights": Variant("no weights, nothing resampled", weighted=False),
    "equal_weights_32": Variant(
        "no weights, 32 particles", weighted=False, settings={"particles": 32}, beside="equal_weights"
    ),
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


def run_parser(description: str | None) -> argparse.ArgumentParser:
    """Parse what every experiment is told about its run."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--network", required=True, choices=BOTH)
    parser.add_argument("--kernel", required=True, choices=("ld", "hmc"))
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--particles", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--prior-scale", type=float)
    parser.add_argument("--batch-norm", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", required=True, type=Path)
    return parser


def write_result(name: str, options: argparse.Namespace, make: Callable[[argparse.Namespace], str]) -> None:
    """Make a result with the threads asked for and write it; what goes wrong is one line."""
    os.environ["NPROC"] = str(options.threads)  # XLA reads it when it starts

    from smcda._io import write_text
    from smcda.errors import SmcdaError

    try:
        result = make(options)
    except SmcdaError as error:
        sys.exit(f"{name}: {error}")
    write_text(options.out, result)


class Parts(NamedTuple):
    """A run of a variant before its first iteration, and what it is made of."""

    run: Any
    settings: Any
    data: Any
    model: Any
    compiled: Any


def choices(variant: Variant, options: argparse.Namespace) -> dict[str, Any]:
    """Say what the network and its prior are: the study's, with the change."""
    return {"prior_scale": options.prior_scale, "batch_norm": options.batch_norm} | variant.model


def build(variant: Variant, options: argparse.Namespace) -> Parts:
    """Put a run of `constant` together with the change asked for."""
    import jax
    from variant_models import changed_model

    from smcda.data.dataset import load
    from smcda.run.loop import Run
    from smcda.settings import Settings

    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    data = load(options.data)
    chosen = {"particles": options.particles, "iterations": options.iterations} | variant.settings
    model, compiled, minibatch = changed_model(options.network, data, **choices(variant, options))
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
    return Parts(run, settings, data, model, compiled)


def execute(options: argparse.Namespace) -> str:
    """Sample and evaluate one variant."""
    from variant_sampler import sample_by_hand

    from smcda.run.evaluation import Predictor, mapped, metrics

    variant = VARIANTS[options.variant]
    run, settings, data, model, compiled = build(variant, options)
    if variant.minibatch == "iteration" and variant.weighted:
        run.advance(settings.iterations)
        particles, log_weights = run.state.particles, run.state.log_weights
    else:
        how = (variant.minibatch, variant.weighted)
        particles, log_weights = sample_by_hand(run, settings, options.seed, *how)
    logits = compiled.logits if compiled else mapped(model.logits, run.algorithm.target)
    predictor = Predictor(logits, data.test_x, particles, log_weights)
    scores = metrics(predictor(particles, log_weights), data.test_y)
    result = {
        "dataset": data.name,
        "variant": options.variant,
        "kernel": options.kernel,
        "seed": options.seed,
        "particles": settings.particles,
        "iterations": settings.iterations,
        "step_size": settings.step_size,
        "prior_scale": choices(variant, options)["prior_scale"],
        "batch_norm": choices(variant, options)["batch_norm"],
        "test_log_likelihood": scores["test_log_likelihood"],
        "test_accuracy": scores["test_accuracy"],
    }
    return json.dumps(result, indent=2) + "\n"


if __name__ == "__main__":
    parser = run_parser(__doc__)
    parser.add_argument("--variant", required=True, choices=VARIANTS)
    write_result("variants", parser.parse_args(), execute)
