"""A GPU of its own for every run, however many start at once.

Snakemake counts GPUs (`--resources gpu=4`) but does not say which run gets which, and JAX takes the first
device it sees. So a run reserves one before JAX looks: it locks one file per device and points
`CUDA_VISIBLE_DEVICES` at it. The operating system releases the lock when its holder dies, by whatever signal,
so there is nothing to clean up and a device is free again at once. When all are taken a run waits for one.

If `CUDA_VISIBLE_DEVICES` is set already, by SLURM or by hand, the choice is among the devices it names.
SLURM's numbers begin at 0 in every job where it hides other jobs' devices, so equal numbers may mean
different devices: the locks of a scheduler's job are its own.
"""

import os
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from smcda._io import try_lock, wait_for
from smcda.errors import BadInput

FAKE_GPUS_VAR = "SMCDA_FAKE_GPUS"
"""Environment variable: number of GPUs to simulate, for tests on a machine without any."""

JOB_ID_VARS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


@contextmanager
def reserve_gpus(
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
        raise BadInput(f"{count} GPUs are requested, but there are {len(visible)}: request fewer")
    files = {name: lock_file(name, environment) for name in visible}
    message = f"all {len(files)} GPUs are taken, waiting for {count}"
    held, locks = wait_for(lambda: _try_acquire(count, files), message)
    with locks:
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
    fake = environment.get(FAKE_GPUS_VAR)
    count = int(fake) if fake else len(list(Path("/dev").glob("nvidia[0-9]*")))
    return [str(index) for index in range(count)]


def lock_file(name: str, environment: MutableMapping[str, str]) -> Path:
    """The lock file of a device: one per user and machine, or per job that a scheduler gave its devices."""
    given = "CUDA_VISIBLE_DEVICES" in environment
    job = next((environment[key] for key in JOB_ID_VARS if given and environment.get(key)), "machine")
    folder = Path(tempfile.gettempdir()) / f"smcda-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise BadInput(f"{folder} belongs to another user: remove it, or set TMPDIR to a folder of your own")
    return folder / f"{job}-{name}".replace("/", "_")


def _uses_gpu(device: str, environment: MutableMapping[str, str]) -> bool:
    """Whether JAX would choose a GPU: it has to, or it may and has a plugin for one."""
    if device != "auto":
        return device == "gpu"
    allowed = environment.get("JAX_PLATFORMS", "")
    plugin = bool(entry_points(group="jax_plugins")) or FAKE_GPUS_VAR in environment
    return plugin and (not allowed or "cuda" in allowed or "gpu" in allowed)


def _try_acquire(count: int, files: dict[str, Path]) -> tuple[list[str], ExitStack] | None:
    """Lock the first `count` devices that are free, or none: two who want several never deadlock."""
    held = []
    with ExitStack() as locks:
        for name, path in files.items():
            if (lock := try_lock(path)) is not None:
                locks.enter_context(lock)
                held.append(name)
            if len(held) == count:
                return held, locks.pop_all()
    return None
