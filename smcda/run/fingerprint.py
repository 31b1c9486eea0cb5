"""What determines a run's result, down to its last bit.

Two runs with equal identities give equal results; a checkpoint is used only by a run whose identity is
its own. Machines round differently: the processor, its number of threads and the compiler are part of
it. Where results go, and which of them are written, is not.
"""

import hashlib
import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smcda import __version__

if TYPE_CHECKING:  # the workflow asks for `numeric_sources` only, and must not wait for JAX
    from smcda.parallel.plan import Layout
    from smcda.settings import Settings

ROUNDING = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
)


def identity(settings: "Settings", layout: "Layout", **more: Any) -> dict[str, Any]:
    """Everything the result depends on, by name; `more` is what only the caller knows."""
    import jax

    resolved = asdict(settings) | {"leapfrog_steps": settings.sweeps, "initial_batch": settings.first_batch}
    return {
        **resolved,
        "micro_batch": layout.micro_batch,
        "particle_chunk": layout.particle_chunk,
        "devices": layout.n_devices,
        **more,
        "smcda": __version__,
        "sources": numeric_sources(),
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
        "jax options": [str(getattr(jax.config, name)) for name in ROUNDING],
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "device": _device(),
    }


def digest(identity: dict[str, Any]) -> str:
    """A short name for an identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names under which two identities differ."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def numeric_sources() -> str:
    """Hash of the code that decides numbers: the algorithm, the models and the execution plan."""
    package = Path(__file__).parents[1]
    found = [package / "parallel" / "plan.py"]
    for folder in ("smc", "models"):
        found += [path for path in (package / folder).rglob("*") if path.suffix in (".py", ".cc", ".h")]
    contents = hashlib.sha256()
    for path in sorted(found):
        contents.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
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
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    """The processor's model; Linux keeps it in a file, elsewhere Python knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
