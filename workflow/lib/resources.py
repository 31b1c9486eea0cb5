"""What a run costs, before it starts: the time and memory that a scheduler is asked for.

The package counts gradient evaluations (one particle, one example) of a run: exactly where the schedule is
fixed, otherwise the most there can be. Seconds are that count times what one evaluation takes on the device,
with room to spare: a job over its time is killed, one that asked for too much only waits a little longer.
"""

import math
from functools import cache

from lib.study import Study
from smcda.smc.cost import gradient_evaluations

SECONDS_PER_EVALUATION = {"gpu": 1e-6, "auto": 3e-4, "cpu": 3e-4}
"""For one particle and one image, of the networks of the study. `cpu` is one core, timed; `gpu` is an A100 by
the count of what its program moves and computes (docs/performance.md), at 70 % of its bandwidth and 45 % of
its arithmetic, rounded up; `auto` may turn out to be either. `seconds_per_evaluation` in the config, of a
scale or of one dataset, overrules it: any finished run's `runtime_s / gradient_evaluations`."""

RETRY = 2  # times as much, in case that was what the first attempt lacked; no node has any amount
START_UP_S = 300.0  # imports from a busy file system, reading data, compiling
SAFETY = 2.0  # seconds are a forecast
MEMORY_MB = {"gpu": 8_000, "auto": 8_000, "cpu": 1_500}  # of the host; CUDA's libraries take most of it
COPIES = 12  # of the particles that a run holds: positions, momenta, gradients, their new values
BYTES_PER_PARTICLE = 4 * 100_000  # float32 weights of the larger built-in network

_count = cache(gradient_evaluations)  # the same for every dataset and seed


def sampling_cost(study: Study, dataset: str, scheme: str, kernel: str) -> int:
    """Particle x example gradients of one run."""
    return _count(study.run_config(dataset, scheme, kernel).sampler, study.n_examples(dataset)[0])


def seconds(study: Study, dataset: str, scheme: str, kernel: str) -> float:
    """How long one run is expected to take, sampling and evaluation, without start-up."""
    settings, config = study.settings_of(dataset), study.run_config(dataset, scheme, kernel)
    n_evaluations = math.ceil(config.sampler.iterations / config.evaluate_every)
    # A prediction is the forward third of a gradient.
    predictions = config.sampler.particles * study.n_examples(dataset)[1] * n_evaluations / 3
    each = settings["seconds_per_evaluation"] or SECONDS_PER_EVALUATION[settings["device"]]
    return each * (sampling_cost(study, dataset, scheme, kernel) + predictions)


def request(study: Study, dataset: str, scheme: str, kernel: str, attempt: int = 1) -> dict[str, int]:
    """What one run asks a scheduler for: GPUs, minutes, and memory of the host."""
    n_particles = study.run_config(dataset, scheme, kernel).sampler.particles
    expected = seconds(study, dataset, scheme, kernel)
    return request_for(study.settings["device"], expected, n_particles, attempt)


def request_for(device: str, seconds: float, n_particles: int, attempt: int) -> dict[str, int]:
    """The same, of a run that is expected to take so long."""
    more, particles = 1 if attempt == 1 else RETRY, COPIES * BYTES_PER_PARTICLE * n_particles / 2**20
    return {
        "gpu": 0 if device == "cpu" else 1,
        "runtime": more * math.ceil((START_UP_S + SAFETY * seconds) / 60),
        "mem_mb": more * math.ceil(MEMORY_MB[device] + particles),
    }
