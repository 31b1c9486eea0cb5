"""How the processes of one run find each other, and how they part.

Only a run that was told how many it has (`--hosts`) looks for others: a plain run inside a job of several
tasks never waits for any. Which of them a process is, and where they meet, is in variables that SLURM's
`srun` sets, or a person. They part together, so that none mistakes the end of another for a failure; the
first speaks for all.
"""

import os
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import jax

from smcda.errors import BadInput, Relayed, SmcdaError, notice
from smcda.hosts import Company, Hosts
from smcda.signals import StopSignals

BY_HAND = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
# What JAX itself looks for; the list of nodes is there only inside a step, which `srun` starts.
BY_SLURM = ("SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_ID")
MEETING_SECONDS = 300.0
"""How long to wait for processes that have not come yet: they may start, or import, late."""
# All are at the same place when they part: one that does not come is dead, or a defect of ours.
PARTING_SECONDS = 30


@contextmanager
def joined(n_processes: int | None, stop: StopSignals, n_gpus: int = 0) -> Iterator[Hosts]:
    """Meet the other processes of a run, if it was asked to have several, and part when it ends.

    Each brings the `n_gpus` it has leased. To be called before JAX looks at its devices.
    """
    if n_processes is None:
        yield Hosts(stop)
        return
    seat = find_seat(n_processes, os.environ)
    # Else JAX takes SIGTERM for itself, and the run would never hear of it.
    jax.config.update("jax_enable_preemption_service", False)
    with stop.starting(lambda: None), _patience(seat, n_processes):
        try:
            # By itself JAX would take the device of SLURM's number, of which the lease knows nothing.
            devices = list(range(max(1, n_gpus)))
            jax.distributed.initialize(
                seat.address,
                n_processes,
                seat.process,
                devices,
                cluster_detection_method=seat.method,
                initialization_timeout=int(MEETING_SECONDS) + 60,
                shutdown_timeout_seconds=PARTING_SECONDS,
            )
        except (RuntimeError, ValueError) as error:
            said = (str(error).splitlines() or ["nothing said"])[0]
            raise SmcdaError(
                f"process {seat.process} of {n_processes} could not meet the others: {said}"
            ) from error
    try:
        yield Company(stop)
    except SmcdaError as error:
        # All processes raise one, here and now; the first tells the user.
        jax.distributed.shutdown()
        if seat.process == 0:
            raise
        raise Relayed(error.exit_code) from error
    except BaseException as error:
        # Nobody else knows of it. To leave in order is to wait for processes that wait for this one.
        traceback.print_exc()
        notice(f"process {seat.process} of {n_processes} failed or lost the others; checkpoints are kept")
        os._exit(130 if isinstance(error, KeyboardInterrupt) else 1)
    else:
        jax.distributed.shutdown()


@contextmanager
def _patience(seat: "Seat", n_processes: int) -> Iterator[None]:
    """Give up in one line before JAX does, which aborts the process with a stack trace."""

    def give_up() -> None:
        notice(
            f"process {seat.process} of {n_processes} waited {MEETING_SECONDS:g} s for the others: see that "
            "all are started, and that they reach the first"
        )
        os._exit(SmcdaError.exit_code)

    timer = threading.Timer(MEETING_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Seat(NamedTuple):
    """Where a process meets the others (None: JAX works it out), and which of them it is."""

    address: str | None
    process: int
    method: str


def find_seat(n_processes: int, environment: Mapping[str, str]) -> Seat:
    """Read one's place from the variables that a launcher has set."""
    if n_processes < 1:
        raise BadInput(
            f"hosts is {n_processes}, but must be at least 1: leave it out for a run by one process"
        )
    if all(name in environment for name in BY_HAND):
        names, address, method = BY_HAND[1:], environment[BY_HAND[0]], "deactivate"
        if not address.rpartition(":")[2].isdecimal() or ":" not in address:
            raise BadInput(f"{BY_HAND[0]} is {address!r}, but must be a host and a port, such as node1:1234")
    elif all(name in environment for name in BY_SLURM):
        names, address, method = BY_SLURM[1:3], None, "slurm"
    else:
        raise BadInput(
            f"hosts is {n_processes}, but this process was not started as one of several: start it by "
            f"srun -n {n_processes} inside a SLURM job, or set {', '.join(BY_HAND)}"
        )
    count, process = (environment[name] for name in names)
    if not (count.isdecimal() and process.isdecimal() and int(process) < int(count)):
        raise BadInput(
            f"{names[0]} is {count!r} and {names[1]} {process!r}, but must be a number and one below it"
        )
    if int(count) != n_processes:
        if int(process) > 0:
            raise Relayed(BadInput.exit_code)  # the first says it
        raise BadInput(f"hosts is {n_processes}, but {names[0]} is {count}: they must be the same")
    return Seat(address, int(process), method)
