"""What a run costs, before it starts: what a scheduler is asked for.

The count of gradient evaluations (one particle, one image) follows from the scheme's schedule, the
kernel's S sweeps and the rule that nothing known is evaluated again:

    fresh images:     (S + 1) M_k                  an iteration, both ends of the move
    appended images:  S M_k + (M_k - M_{k-1})      an iteration, the start being known for the old ones

Smooth data annealing decides on the way, but takes in at most one minibatch an iteration, so what it
costs at most is known too. Seconds are that count times what one evaluation takes on the device, with
room to spare: a job over its time is killed, one that asked for too much only waits a little longer.
"""

import math
from functools import cache
from typing import Any

IMAGES = {"full": (60_000, 10_000), "bundled": (2_000, 1_000)}
"""Training and test images of a source."""

SECONDS_PER_EVALUATION = {"gpu": 2.5e-6, "auto": 3e-4, "cpu": 3e-4}
"""For one particle and one image. `cpu` is one core, timed; `gpu` is a cautious guess (1 TFLOP/s); `auto`
may turn out to be either. `seconds_per_evaluation` in the config overrules it: any finished run's
`runtime_s / gradient_evaluations`."""

RETRY = 2  # times as much, in case that was what the first attempt lacked; no node has any amount
START_UP_S = 300.0  # imports from a busy file system, reading data, compiling
SAFETY = 2.0  # seconds are a forecast
MEMORY_MB = {"gpu": 8_000, "auto": 8_000, "cpu": 1_500}  # of the host; CUDA's libraries take most of it
COPIES = 12  # of the particles that a run holds: positions, momenta, gradients, their new values
BYTES_PER_PARTICLE = 4 * 100_000  # float32 weights of the larger network


def gradient_evaluations(settings: dict[str, Any], scheme: str, kernel: str) -> int:
    """Particle x image gradients of one run: exact, or for smooth data annealing the most there can be."""
    n_train, _ = _n_images(settings)
    sizes = (settings["iterations"], n_train, settings["batch_size"])
    sizes += (settings["initial_batch"] or settings["batch_size"], settings["refine_from"])
    sweeps = settings["leapfrog_steps"] if kernel == "hmc" else 1
    return settings["particles"] * _images_of_a_particle(scheme, sweeps, *sizes)


def seconds(settings: dict[str, Any], scheme: str, kernel: str) -> float:
    """How long one run is expected to take, sampling and testing, without start-up."""
    _, n_test = _n_images(settings)
    n_tests = math.ceil(settings["iterations"] / settings["evaluate_every"])
    # A prediction is the forward third of a gradient.
    predictions = settings["particles"] * n_test * n_tests / 3
    each = settings["seconds_per_evaluation"] or SECONDS_PER_EVALUATION[settings["device"]]
    return each * (gradient_evaluations(settings, scheme, kernel) + predictions)


def runtime_minutes(settings: dict[str, Any], scheme: str, kernel: str, attempt: int = 1) -> int:
    """What to ask a scheduler for."""
    needed = START_UP_S + SAFETY * seconds(settings, scheme, kernel)
    return math.ceil(needed / 60) * (1 if attempt == 1 else RETRY)


def memory_mb(settings: dict[str, Any], attempt: int = 1) -> int:
    """Memory of the host to ask for."""
    particles = COPIES * BYTES_PER_PARTICLE * settings["particles"] / 2**20
    return math.ceil(MEMORY_MB[settings["device"]] + particles) * (1 if attempt == 1 else RETRY)


def _n_images(settings: dict[str, Any]) -> tuple[int, int]:
    n_train, n_test = IMAGES[settings["source"]]
    return min(n_train, settings["train_images"] or n_train), min(n_test, settings["test_images"] or n_test)


@cache
def _images_of_a_particle(
    scheme: str, sweeps: int, iterations: int, n_train: int, batch: int, first: int, refine_from: float
) -> int:
    # Imported here because it brings JAX, a second that only those who plan runs need to wait.
    from smcda.smc.schedules.fixed import FIXED_SCHEMES, Annealing, images_evaluated, most_of_smooth

    sizes = Annealing(iterations, n_train, batch, first, refine_from)
    return images_evaluated(FIXED_SCHEMES.get(scheme, most_of_smooth)(sizes), sweeps)
