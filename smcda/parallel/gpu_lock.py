"""A GPU of its own for every run, however many start at once.

Snakemake counts GPUs (`--resources gpu=4`) but does not say which run gets which, and JAX takes the
first device it sees. So a run leases one before JAX looks: it locks one file a device and points
`CUDA_VISIBLE_DEVICES` at it. The operating system drops a file lock when its holder dies, by
whatever signal, so there is nothing to clean up and a device is free again at once. When all are
taken a run waits for one.

If `CUDA_VISIBLE_DEVICES` is set already, by SLURM or by hand, the lease is among the devices it
names. SLURM's numbers begin at 0 in every job where it hides other jobs' devices, so equal numbers
may mean different devices: the locks of a scheduler's job are its own.
"""

import os
import tempfile
import time
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from smcda._locks import is_at, try_lock
from smcda.errors import BadInput, notice

PRETEND = "SMCDA_PRETEND_GPUS"
"""Number of GPUs to believe in, for tests on a machine without any."""

JOB_NUMBERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
SECONDS_BETWEEN_TRIES = 0.2


@contextmanager
def gpus_for(
    device: str, count: int = 1, environment: MutableMapping[str, str] = os.environ
) -> Iterator[list[str]]:
    """Hold `count` GPUs if a run on `device` (auto, cpu or gpu) would use one; yield their names.

    The environment stays pointed at them afterwards, because JAX has read it by then.
    """
    visible = visible_gpus(environment) if _uses_gpu(device, environment) else []
    if not visible:
        yield []
        return
    if count > len(visible):
        raise BadInput(f"{count} GPUs are asked for, but there are {len(visible)}: ask for fewer")
    files = {name: lock_file(name, environment) for name in visible}
    with ExitStack() as locks:
        held = _wait_for(count, files, locks)
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(held)
        # By default JAX takes three quarters of a device's memory at once, whatever it needs, and
        # leaves too little for anybody else's process on it.
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        yield held


def visible_gpus(environment: MutableMapping[str, str]) -> list[str]:
    """Names of the GPUs that this process may use, found without waking JAX or the driver."""
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        names = [name.strip() for name in named.split(",")]
        # CUDA reads the list up to the first name that is none.
        end = next((i for i, name in enumerate(names) if name in ("", "-1", "NoDevFiles")), len(names))
        return names[:end]
    pretended = environment.get(PRETEND)
    count = int(pretended) if pretended else len(list(Path("/dev").glob("nvidia[0-9]*")))
    return [str(index) for index in range(count)]


def lock_file(name: str, environment: MutableMapping[str, str]) -> Path:
    """The file that stands for a device: one a user and machine, or a job that was handed its devices."""
    handed_out = "CUDA_VISIBLE_DEVICES" in environment
    job = next((environment[key] for key in JOB_NUMBERS if handed_out and environment.get(key)), "machine")
    folder = Path(tempfile.gettempdir()) / f"smcda-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise BadInput(f"{folder} belongs to another user: remove it, or set TMPDIR to a folder of your own")
    return folder / f"{job}-{name}".replace("/", "_")


def _uses_gpu(device: str, environment: MutableMapping[str, str]) -> bool:
    """Whether JAX would choose a GPU: it was asked to, or it may and has a plugin for one."""
    if device != "auto":
        return device == "gpu"
    allowed = environment.get("JAX_PLATFORMS", "")
    plugin = bool(entry_points(group="jax_plugins")) or PRETEND in environment
    return plugin and (not allowed or "cuda" in allowed or "gpu" in allowed)


def _wait_for(count: int, files: dict[str, Path], locks: ExitStack) -> list[str]:
    """Lock `count` devices, all or none of them at a time, so that two who want several never block."""
    told = False
    while True:
        with ExitStack() as attempt:
            held = []
            for name, file in files.items():
                if _take(file, attempt):
                    held.append(name)
                if len(held) == count:
                    locks.push(attempt.pop_all())
                    return held
        if not told:
            notice(f"all {len(files)} GPUs are taken, waiting for {count}")
            told = True
        time.sleep(SECONDS_BETWEEN_TRIES)


def _take(path: Path, locks: ExitStack) -> bool:
    """Lock the file of one device if nobody has it; it is removed when the lock is let go."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    # Whoever let go just now removed the file that we had opened already: then it is not the lock any more.
    if not try_lock(descriptor, if_unsupported=True) or not is_at(descriptor, path):
        os.close(descriptor)
        return False
    locks.callback(os.close, descriptor)
    locks.callback(path.unlink, missing_ok=True)
    return True
