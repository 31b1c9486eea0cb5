"""What determines a run's result, down to its last bit, and where it was made.

Two runs with equal fingerprints give equal results; a checkpoint is used only by a run whose fingerprint is
its own. Machines round differently: the processor, its number of threads and the compiler are part of it.
Where results go, and which of them are written, is not.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcda import __version__

if TYPE_CHECKING:  # the workflow needs `numeric_sources` only, and must not wait for JAX
    from smcda.runs.loop import Run

ROUNDING = ("enable_x64", "default_matmul_precision", "default_prng_impl", "threefry_partitionable")
"""JAX's options that change numbers."""


def fingerprint(run: "Run", seed: int, evaluate_every: int, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the result depends on, by name; `identity` is what the run itself does not know.

    The digests of the compiled programs stand for the model, whatever functions it is made of. A scheme of
    the user's own may plan otherwise under the same name, in numbers that those programs only read.
    """
    from smcda.smc.schedules import is_built_in

    plan = run.plan
    scheme = {} if is_built_in(run.config) else {"plan": _hash((run.schedule.first, run.schedule.params))}
    return {
        **run.config.described(),
        "micro_batch": plan.micro_batch,
        "particle_chunk": plan.particle_chunk,
        "devices": plan.n_devices,
        "gradients": plan.gradients,
        "programs": run.programs,
        **scheme,
        **identity,
        "seed": seed,
        "evaluate_every": evaluate_every,
        **surroundings(numeric_sources()),
    }


def surroundings(sources: str) -> dict[str, Any]:
    """What else decides numbers: the code, JAX and its options, the machine."""
    import jax

    return {
        "smcda": __version__,
        "sources": sources,
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
        "jax_options": [str(getattr(jax.config, f"jax_{name}")) for name in ROUNDING],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "device": _device(),
    }


def digest(fingerprint: dict[str, Any]) -> str:
    """A short name for a fingerprint."""
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:24]


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names under which two fingerprints differ."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def provenance() -> dict[str, str | None]:
    """Machine, Python and commit of the sources that make a result; the commit is None outside a checkout.

    A commit whose files were edited since ends in ``+``.
    """
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> str | None:
        command = ("git", "-C", package, *arguments)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return None if done.returncode else done.stdout.strip()

    # Only a checkout of this project counts, not one that an environment happens to lie in.
    tracked = git("ls-files", "--error-unmatch", "__init__.py")
    commit = git("rev-parse", "--short=12", "HEAD") if tracked else None
    if commit and git("status", "--porcelain", "--", "."):
        commit += "+"
    machine = f"{_processor()}, {_available_cores()} cores"
    return {"machine": machine, "python": platform.python_version(), "commit": commit}


def numeric_sources(*more: str) -> str:
    """Hash of the code that decides numbers: algorithm, models, execution plan, and folders more."""
    package = Path(__file__).parents[1]
    found = [package / "parallel" / "plan.py"]
    for folder in ("smc", "models", *more):
        found += [path for path in (package / folder).rglob("*") if path.suffix in (".py", ".cc", ".h")]
    contents = hashlib.sha256()
    for path in sorted(found):
        contents.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return contents.hexdigest()


def _hash(arrays: Any) -> str:
    import jax

    contents = hashlib.sha256()
    for leaf in jax.tree.leaves(arrays):
        contents.update(f"{leaf.dtype} {leaf.shape}\n".encode() + bytes(leaf))
    return contents.hexdigest()


def _device() -> str:
    import jax

    device = jax.devices()[0]
    parts = [device.device_kind, device.client.platform_version]
    if device.platform == "cpu":
        # XLA cuts work by the threads it may use, and compiles for the instructions that are there.
        parts += [_processor(), f"{os.environ.get('NPROC', _available_cores())} threads"]
    return ", ".join(" ".join(part.split()) for part in parts)


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """The processor's model; Linux keeps it in a file, elsewhere Python knows it."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
