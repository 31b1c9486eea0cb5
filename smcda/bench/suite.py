"""Every measure that one process can take: what is compared, and the ratio that comes of it."""

import importlib.util
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp

from smcda.bench import baseline, blackjax_smc
from smcda.bench.flops import gradient_flops
from smcda.bench.timing import Case, Sizes, interleaved, matrix_product, seconds_to_save
from smcda.config import SamplerConfig
from smcda.models.lenet import MODELS

STEP_SIZE = 0.002
CHECKPOINT_EVERY = 300.0
Figures = dict[str, Any]


def config(sizes: Sizes, scheme: str, kernel: str, particles: int | None = None) -> SamplerConfig:
    """The published settings, with the particles and the batch size of the measure."""
    # Long enough to never end while it is timed.
    return SamplerConfig(
        scheme, kernel, particles or sizes.particles, iterations=10_000, batch_size=sizes.batch
    )


def speedup_over_baseline(sizes: Sizes) -> Figures:
    """(a) One iteration of the plain implementation over one of ours, LeNet-5."""

    def ratio(kernel: str, n_images: int, n_steps: int, rounds: int) -> float:
        # Full batch of n_images: the target stands still, and ours has cached the start of each move.
        case = Case("lenet5", n_images, config(sizes, "full_batch", kernel))
        x, y = case.run.data.x[:n_images], case.run.data.y[:n_images]
        plain_network = baseline.PLAIN["lenet5"]()
        density = baseline.log_density(plain_network, case.model, case.run.flat, x, y, n_images)
        key, weights = jax.random.key(0), jnp.zeros(len(case.particles))
        iterate = partial(baseline.iteration, density=density, step_size=STEP_SIZE, n_steps=n_steps)
        plain = jax.jit(iterate).lower(key, case.particles, weights).compile()
        ours = float("inf")
        theirs = float("inf")
        for _ in range(rounds + 1):
            ours = min(ours, case.seconds_per_iteration())
            theirs = min(theirs, interleaved({"": lambda: plain(key, case.particles, weights)}, 0)[""])
        return theirs / ours

    few = min(sizes.rounds, 3)
    return {
        "baseline_over_ours_hmc": ratio("hmc", sizes.batch, 3, few),
        # A single turn takes minutes.
        "baseline_over_ours_ld_full": ratio("ld", sizes.baseline_full, 1, 1),
    }


def share_of_matrix_product(sizes: Sizes) -> Figures:
    """(b) Useful arithmetic per second in a gradient, as a share of the matrix product's."""
    products = {f"product {size}": matrix_product(size) for size in (1024, 2048)}
    shares: dict[str, dict[str, float]] = {}
    seconds: dict[str, dict[str, float]] = {}
    speeds = []
    for network in MODELS:
        for particles in (1, sizes.particles, sizes.many_particles):
            # A run has at least two particles; a gradient may have one.
            case = Case(network, sizes.batch, config(sizes, "constant", "ld", max(2, particles)))
            calls = {"gradient": case.gradient(sizes.batch, particles)}
            calls |= {name: product for name, (product, _) in products.items()}
            best = interleaved(calls, sizes.rounds)
            speed = max(flops / best[name] for name, (_, flops) in products.items())
            speeds.append(speed)
            one = best["gradient"] / (particles * sizes.batch)
            shares.setdefault(network, {})[str(particles)] = gradient_flops(network) / one / speed
            seconds.setdefault(network, {})[str(particles)] = one * 1e6
    return {
        "matmul_share": shares,
        "microseconds_per_particle_image": seconds,
        "matmul_gflops": max(speeds) / 1e9,
    }


def time_per_image(sizes: Sizes) -> Figures:
    """(c) Time of a full-batch iteration per image, and (d) that iteration over one gradient.

    These ratios are near one, less than the machine wanders by from one minute to the next. So each is taken
    between neighbouring turns of about the same length, and the median of many such pairs counts.
    """
    counts = (sizes.batch, sizes.middle, sizes.full)
    cases = {n: Case("lenet5", n, config(sizes, "full_batch", "ld")) for n in counts}
    gradient = cases[sizes.full].gradient(sizes.full)
    turns = [
        {n: case.seconds_per_iteration(sizes.full // n) for n, case in cases.items()}
        | {"gradient": interleaved({"": gradient}, 0)[""]}
        for _ in range(2 * sizes.rounds + 1)
    ]
    per_image = {n: median(turn[n] / n for turn in turns) for n in counts}
    return {
        "microseconds_per_image": {str(n): seconds * 1e6 for n, seconds in per_image.items()},
        "per_image_60000_over_5000": median(
            (turn[sizes.full] / sizes.full) / (turn[sizes.middle] / sizes.middle) for turn in turns
        ),
        "ld_full_over_gradient": median(turn[sizes.full] / turn["gradient"] for turn in turns),
    }


def compilations(sizes: Sizes) -> Figures:
    """(f) How often the step is compiled in a `linear` run, whose data grow every iteration."""
    programs: list[str] = []

    def listen(event: str, duration_secs: float, **about: Any) -> None:
        del duration_secs
        if event.endswith("backend_compile_duration"):
            programs.append(str(about.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    n_images = sizes.batch * sizes.iterations // 2
    linear = SamplerConfig("linear", "ld", 2, sizes.iterations, batch_size=sizes.batch)
    case = Case("lenet5", n_images, linear)
    started = len([name for name in programs if "run_block" in name])
    before = len(programs)
    for _ in range(sizes.iterations // 10):
        case.run.advance(10)
    # Anything compiled while iterating would be a change of shape that should not be there.
    return {"compilations": started + len(programs) - before}


def paper_scale(sizes: Sizes) -> Figures:
    """Whole runs at paper scale with four particles, from the measured seconds of their iterations.

    `full_batch` over a cheaper scheme, as a share of the ratio that the counted gradient evaluations allow.
    """
    n, c, k, refined = sizes.full, sizes.batch, 200, 180
    figures: Figures = {}
    for kernel, steps in (("ld", 1), ("hmc", 3)):
        full = Case("lenet5", n, config(sizes, "full_batch", kernel, 4))
        fresh = Case("lenet5", n, config(sizes, "constant", kernel, 4))
        seconds_full = seconds_fresh = gradient = float("inf")
        for _ in range(3 if kernel == "ld" else 2):
            seconds_full = min(seconds_full, full.seconds_per_iteration())
            gradient = min(gradient, interleaved({"": full.gradient(n)}, 0)[""])
            seconds_fresh = min(seconds_fresh, fresh.seconds_per_iteration(20))
        # The first refining iteration also evaluates the unmoved particles on all data: one gradient more.
        time = {
            "full_batch": gradient + k * seconds_full,
            "constant_to_refine": refined * seconds_fresh + gradient + (k - refined) * seconds_full,
            "constant": k * seconds_fresh,
        }
        work = {
            "full_batch": n + k * steps * n,
            "constant_to_refine": c + refined * (steps + 1) * c + n + (k - refined) * steps * n,
            "constant": c + k * (steps + 1) * c,
        }
        for scheme in ("constant_to_refine", "constant"):
            measured = time["full_batch"] / time[scheme]
            allowed = work["full_batch"] / work[scheme]
            figures[f"{scheme}.{kernel}"] = {
                "measured": measured,
                "allowed": allowed,
                "share": measured / allowed,
            }
    return {"paper_scale": figures}


def checkpoint(sizes: Sizes) -> Figures:
    """Seconds of one checkpoint at laptop scale and at published size, as a share of 300 s between two."""
    figures = {}
    for name, particles in (("laptop", 4), ("published", sizes.many_particles)):
        case = Case("lenet5", sizes.batch, config(sizes, "constant", "ld", particles))
        figures[name] = min(seconds_to_save(case.run.to_save()) for _ in range(max(2, sizes.rounds)))
    return {
        "checkpoint_seconds": figures,
        "checkpoint_share": {name: seconds / CHECKPOINT_EVERY for name, seconds in figures.items()},
    }


def blackjax_over_ours(sizes: Sizes) -> Figures:
    """One iteration of BlackJAX over one of ours, four particles; None where BlackJAX is not installed."""
    if importlib.util.find_spec("blackjax") is None:
        return {"blackjax_over_ours": None, "blackjax_hmc_step_over_ours": None}
    # `linear` in its first iterations: 500 of 10,000 images, and the particles' sums are cached.
    case = Case("lenet5", sizes.baseline_full, config(sizes, "linear", "hmc", 4))
    small = Case("lenet5", sizes.batch, config(sizes, "full_batch", "hmc", 4))
    masked = blackjax_smc.partial_posteriors(case, sizes.batch, sizes.baseline_full, STEP_SIZE)
    hmc = blackjax_smc.hmc_step(small, sizes.batch, STEP_SIZE)
    ours = float("inf")
    best = {"masked": float("inf"), "hmc": float("inf")}
    for _ in range(2):
        ours = min(ours, *(small.seconds_per_iteration() for _ in range(3)))
        for name, seconds in interleaved({"masked": masked, "hmc": hmc}, 0).items():
            best[name] = min(best[name], seconds)
    return {
        "blackjax_over_ours": best["masked"] / ours,
        "blackjax_hmc_step_over_ours": best["hmc"] / ours,
    }
