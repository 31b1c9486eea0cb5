"""A real SLURM cluster of one node, for as long as a `with` block lasts.

Debian's own daemons (packages slurmctld, slurmd, slurm-client, munge), started as children of this
process from a folder of their own, as root: no systemd, no accounting database. The node has two
GPUs that are copies of /dev/null, which is all that SLURM looks at. SLURM's plugin for Snakemake
cleans its jobs' environment, so commands in a job find the cluster only by /etc/slurm, into
which two links are put. Every daemon is stopped and all files are removed at the end; if this
process is killed the daemons die with it, and the next cluster sweeps up.

    python tests/slurm_cluster.py sinfo        # runs any command on such a cluster
"""

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SETTINGS = Path("/etc/slurm")
PREFIX = "smcda-slurm-"
COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch")
MEMORY_MB = 64_000
GPUS = 2

SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job waits until its old credentials have expired, 120 s unless told otherwise.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
# Look for work at once instead of every minute or so.
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
ReturnToService=2
# Believe in the node's memory as written below; a GPU run asks for more than a small machine has.
SlurmdParameters=config_overrides
# Without a database squeue is all there is: it must remember finished jobs.
AccountingStorageType=accounting_storage/none
MinJobAge=3600
# A job over its memory is killed. Without control groups that is by looking at it every second.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
# Seconds between SIGTERM and SIGKILL: what a run has to save its checkpoint.
KillWait=20
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing_commands() -> list[str]:
    """What this machine lacks of SLURM; Debian keeps the daemons out of users' PATH."""
    return [name for name in COMMANDS if _where(name) is None]


@contextmanager
def one_node_slurm() -> Iterator[None]:
    """Start the cluster; SLURM's commands find it until the block ends."""
    with ExitStack() as stack:
        # One such cluster at a time; the folder itself is the lock, so that none is left behind.
        SETTINGS.mkdir(exist_ok=True)
        settings = os.open(SETTINGS, os.O_RDONLY)
        stack.callback(os.close, settings)
        fcntl.flock(settings, fcntl.LOCK_EX)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _configure(folder)
        stack.enter_context(_links(folder, "slurm.conf", "gres.conf"))
        key, sock = folder / "munge.key", folder / "munge.socket"
        munge = ["--foreground", "--force", f"--key-file={key}", f"--socket={sock}"]
        munge += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
        logs = {name: folder / f"{name}.log" for name in ("munged", "slurmctld", "slurmd")}
        stack.enter_context(_daemon("munged", munge, logs["munged"]))
        _wait(sock.exists, "munged", logs)
        stack.enter_context(_daemon("slurmctld", ["-D", "-i"], logs["slurmctld"]))
        stack.enter_context(_daemon("slurmd", ["-D"], logs["slurmd"]))
        _wait(lambda: _says(["sinfo", "-h", "-o", "%t"]) == "idle", "the node", logs)
        stack.callback(_end_jobs)
        yield


def _configure(folder: Path) -> None:
    host, user = socket.gethostname().split(".")[0], subprocess.getoutput("id -un")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for index in range(GPUS):
        os.mknod(folder / f"gpu{index}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    port, node_port = _free_ports(2)
    cpus = len(os.sched_getaffinity(0))
    values = {"host": host, "user": user, "port": port, "node_port": node_port, "cpus": cpus}
    values |= {"folder": folder, "memory": MEMORY_MB, "gpus": GPUS}
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**values))
    (folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")


@contextmanager
def _links(folder: Path, *names: str) -> Iterator[None]:
    """Put links to our files where SLURM looks, unless a cluster of somebody else's is configured there."""
    links = [SETTINGS / name for name in names]
    for link in links:
        # One of ours is left over: we hold the lock, so its cluster was killed.
        if link.is_symlink() and (old := link.readlink().parent).name.startswith(PREFIX):
            link.unlink()
            shutil.rmtree(old, ignore_errors=True)
        if link.exists():
            raise FileExistsError(f"{link} is there already: this machine has a SLURM of its own")
    try:
        for link in links:
            link.symlink_to(folder / link.name)
        yield
    finally:
        for link in links:
            link.unlink(missing_ok=True)


@contextmanager
def _daemon(name: str, options: list[str], log: Path) -> Iterator[None]:
    command = _where(name)
    assert command is not None, f"{name} is not installed"
    with log.open("w") as stream:
        # A session of its own, so that Ctrl-C reaches the tests first and they stop the daemons in order; and
        # the kernel ends it when this process is gone, however it went.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", command, *options],
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_jobs() -> None:
    """Cancel what still runs, and wait for it: a daemon that is gone can't end its jobs."""
    subprocess.run(["scancel", "--me"])
    active = ["squeue", "-h", "-o", "%i", "--states=PENDING,RUNNING,COMPLETING"]
    deadline = time.monotonic() + 30
    while _says(active) and time.monotonic() < deadline:
        time.sleep(0.2)


def _wait(ready, what: str, logs: dict[str, Path], seconds: float = 30) -> None:  # noqa: ANN001
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            said = "\n".join(f"{name}: {log.read_text()}" for name, log in logs.items() if log.exists())
            raise TimeoutError(f"{what} did not come up within {seconds:g} s\n{said}")
        time.sleep(0.1)


def _says(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _where(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


if __name__ == "__main__":
    with one_node_slurm():
        sys.exit(subprocess.run(sys.argv[1:]).returncode)
