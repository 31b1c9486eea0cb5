"""Every measure that one process can take: what is compared, and the ratio that comes of it."""

import importlib.util
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp

from smcda.bench import baseline as obvious
from smcda.bench import blackjax_smc as rival
from smcda.bench.flops import gradient_flops
from smcda.bench.timing import Sizes, Subject, by_turns, matrix_product, seconds_to_save
from smcda.models.lenet import NETWORKS
from smcda.settings import Settings

STEP_SIZE = 0.002
CHECKPOINT_EVERY = 300.0
Figures = dict[str, Any]


def settings(sizes: Sizes, scheme: str, kernel: str, particles: int | None = None) -> Settings:
    """The published settings, with the particles and the batch size of the measure."""
    # Long enough to never end while it is timed.
    return Settings(scheme, kernel, particles or sizes.particles, iterations=10_000, batch_size=sizes.batch)


def against_the_obvious(sizes: Sizes) -> Figures:
    """(a) One iteration of the obvious implementation over one of ours, LeNet-5."""

    def ratio(kernel: str, n_images: int, n_steps: int, rounds: int) -> float:
        # Full batch of n_images: the target stands still, and ours remembers the start of each move.
        subject = Subject("lenet5", n_images, settings(sizes, "full_batch", kernel))
        target, batches = subject.run.algorithm.target, subject.run.batches
        x, y = batches.x[:n_images], batches.y[:n_images]
        density = obvious.log_density(obvious.PLAIN["lenet5"](), target, x, y, n_images)
        key, weights = jax.random.key(0), jnp.zeros(len(subject.particles))
        iterate = partial(obvious.iteration, density=density, step_size=STEP_SIZE, n_steps=n_steps)
        plain = jax.jit(iterate).lower(key, subject.particles, weights).compile()
        ours = float("inf")
        theirs = float("inf")
        for _ in range(rounds + 1):
            ours = min(ours, subject.seconds_an_iteration())
            theirs = min(theirs, by_turns({"": lambda: plain(key, subject.particles, weights)}, 0)[""])
        return theirs / ours

    few = min(sizes.rounds, 3)
    return {
        "obvious_over_ours_hmc": ratio("hmc", sizes.batch, 3, few),
        # A single turn takes minutes.
        "obvious_over_ours_ld_full": ratio("ld", sizes.obvious_full, 1, 1),
    }


def against_the_matrix_product(sizes: Sizes) -> Figures:
    """(b) Useful arithmetic a second in a gradient sweep, as a share of the matrix product's."""
    products = {f"product {size}": matrix_product(size) for size in (1024, 2048)}
    shares: dict[str, dict[str, float]] = {}
    seconds: dict[str, dict[str, float]] = {}
    speeds = []
    for network in NETWORKS:
        for particles in (1, sizes.particles, sizes.many_particles):
            # A run has at least two particles; a sweep may have one.
            subject = Subject(network, sizes.batch, settings(sizes, "constant", "ld", max(2, particles)))
            calls = {"sweep": subject.sweep(sizes.batch, particles)}
            calls |= {name: product for name, (product, _) in products.items()}
            best = by_turns(calls, sizes.rounds)
            speed = max(flops / best[name] for name, (_, flops) in products.items())
            speeds.append(speed)
            one = best["sweep"] / (particles * sizes.batch)
            shares.setdefault(network, {})[str(particles)] = gradient_flops(network) / one / speed
            seconds.setdefault(network, {})[str(particles)] = one * 1e6
    return {
        "matmul_share": shares,
        "microseconds_a_particle_image": seconds,
        "matmul_gflops": max(speeds) / 1e9,
    }


def against_the_number_of_images(sizes: Sizes) -> Figures:
    """(c) Time of a full-batch iteration an image, and (d) that iteration over one gradient sweep.

    These ratios are near one, less than the machine wanders by from one minute to the next. So each is taken
    between neighbouring turns of about the same length, and the median of many such pairs counts.
    """
    counts = (sizes.batch, sizes.middle, sizes.full)
    subjects = {n: Subject("lenet5", n, settings(sizes, "full_batch", "ld")) for n in counts}
    sweep = subjects[sizes.full].sweep(sizes.full)
    turns = [
        {n: subject.seconds_an_iteration(sizes.full // n) for n, subject in subjects.items()}
        | {"sweep": by_turns({"": sweep}, 0)[""]}
        for _ in range(2 * sizes.rounds + 1)
    ]
    an_image = {n: median(turn[n] / n for turn in turns) for n in counts}
    return {
        "microseconds_an_image": {str(n): seconds * 1e6 for n, seconds in an_image.items()},
        "per_image_60000_over_5000": median(
            (turn[sizes.full] / sizes.full) / (turn[sizes.middle] / sizes.middle) for turn in turns
        ),
        "ld_full_over_sweep": median(turn[sizes.full] / turn["sweep"] for turn in turns),
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
    linear = Settings("linear", "ld", 2, sizes.iterations, batch_size=sizes.batch)
    subject = Subject("lenet5", n_images, linear)
    started = len([name for name in programs if "run_block" in name])
    before = len(programs)
    for _ in range(sizes.iterations // 10):
        subject.run.advance(10)
    # Anything compiled while iterating would be a change of shape that should not be there.
    return {"compilations": started + len(programs) - before}


def paper_scale(sizes: Sizes) -> Figures:
    """Whole runs at paper scale with four particles, from the measured seconds of their iterations.

    `full_batch` over a cheaper scheme, as a share of the ratio that the counted gradient evaluations allow.
    """
    n, c, k, refined = sizes.full, sizes.batch, 200, 180
    figures: Figures = {}
    for kernel, sweeps in (("ld", 1), ("hmc", 3)):
        full = Subject("lenet5", n, settings(sizes, "full_batch", kernel, 4))
        fresh = Subject("lenet5", n, settings(sizes, "constant", kernel, 4))
        seconds_full = seconds_fresh = sweep = float("inf")
        for _ in range(3 if kernel == "ld" else 2):
            seconds_full = min(seconds_full, full.seconds_an_iteration())
            sweep = min(sweep, by_turns({"": full.sweep(n)}, 0)[""])
            seconds_fresh = min(seconds_fresh, fresh.seconds_an_iteration(20))
        # The first refining iteration also weighs the unmoved particles on all data: one sweep more.
        time = {
            "full_batch": sweep + k * seconds_full,
            "constant_to_refine": refined * seconds_fresh + sweep + (k - refined) * seconds_full,
            "constant": k * seconds_fresh,
        }
        work = {
            "full_batch": n + k * sweeps * n,
            "constant_to_refine": c + refined * (sweeps + 1) * c + n + (k - refined) * sweeps * n,
            "constant": c + k * (sweeps + 1) * c,
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
        subject = Subject("lenet5", sizes.batch, settings(sizes, "constant", "ld", particles))
        figures[name] = min(seconds_to_save(subject.run.saved()) for _ in range(max(2, sizes.rounds)))
    return {
        "checkpoint_seconds": figures,
        "checkpoint_share": {name: seconds / CHECKPOINT_EVERY for name, seconds in figures.items()},
    }


def against_blackjax(sizes: Sizes) -> Figures:
    """One iteration of BlackJAX over one of ours, four particles; None where BlackJAX is not installed."""
    if importlib.util.find_spec("blackjax") is None:
        return {"blackjax_over_ours": None, "blackjax_hmc_step_over_ours": None}
    # `linear` in its first iterations: 500 of 10,000 images, and the particles' sums are remembered.
    subject = Subject("lenet5", sizes.obvious_full, settings(sizes, "linear", "hmc", 4))
    small = Subject("lenet5", sizes.batch, settings(sizes, "full_batch", "hmc", 4))
    masked = rival.partial_posteriors(subject, sizes.batch, sizes.obvious_full, STEP_SIZE)
    hmc = rival.hmc_step(small, sizes.batch, STEP_SIZE)
    ours = float("inf")
    best = {"masked": float("inf"), "hmc": float("inf")}
    for _ in range(2):
        ours = min(ours, *(small.seconds_an_iteration() for _ in range(3)))
        for name, seconds in by_turns({"masked": masked, "hmc": hmc}, 0).items():
            best[name] = min(best[name], seconds)
    return {
        "blackjax_over_ours": best["masked"] / ours,
        "blackjax_hmc_step_over_ours": best["hmc"] / ours,
    }
