"""Gradients of the two networks, compiled for this machine's CPU.

On a CPU, XLA runs a network as a few dozen passes over memory, each a small product, a transposition or
an elementwise loop, and reaches a seventh of what the machine's matrix product does. Here the same
arithmetic is a few hundred lines of C++: a group of images at a time (one per vector lane) goes forward and
backward through one particle's network without leaving the cache, and the sums over a window of images are
one call that XLA makes. The machine's own compiler builds it, once; the library is cached beside XLA's
compiled programs. Without a compiler, for other networks and on a GPU, XLA's own gradients are used; the
two are equal to rounding.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from smcda._io import atomic_write
from smcda.config import cache_dir
from smcda.errors import SmcdaError
from smcda.models.base import FastCode
from smcda.smc.batches import ShuffledData, Window
from smcda.smc.likelihood import LikelihoodSums, Particles

NETWORKS = ("lenet5", "fashion_cnn")
"""Networks that there is native code for."""

NORMALISED = "fashion_cnn_normalised"
"""The one that has batch normalisation as an option, with it."""

_SOURCES = Path(__file__).parent
# No errno and no floating-point traps to keep intact; NaN and infinity stay what they are.
_FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared", "-w"),
)


class NotBuilt(SmcdaError):
    """The native code can't be had on this machine."""


def load(network: str, reference: UInt8[Array, "reference 28 28"] | None = None) -> FastCode:
    """Likelihood and logits of one of `NETWORKS`; builds and loads the code where need be.

    With `reference` images there is batch normalisation: over minibatches of as many images as these, and
    by the statistics of these themselves in the logits.
    """
    library = _library()
    _register(library)
    code = network if reference is None else NORMALISED
    options = {} if reference is None else {"images_each": np.int64(len(reference))}
    test_images = () if reference is None else (reference,)

    def likelihood(particles: Particles, data: ShuffledData, window: Window) -> LikelihoodSums:
        n_particles, n_parameters = particles.shape
        shapes = ((2, n_particles), (2, n_particles, n_parameters))
        bounds = jnp.stack([window.start, window.split, window.stop])
        sums = jax.ffi.ffi_call(_target(code, "sums"), [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes])
        return LikelihoodSums(*sums(particles, data.x, data.y, bounds, **options))

    def logits(
        particles: Particles, images: UInt8[Array, "image 28 28"]
    ) -> Float[Array, "particle image 10"]:
        shape = jax.ShapeDtypeStruct((len(particles), len(images), 10), jnp.float32)
        return jax.ffi.ffi_call(_target(code, "logits"), shape)(particles, images, *test_images)

    return FastCode(likelihood, logits, library.name)


def _target(network: str, function: str) -> str:
    return f"smcda_{network}_{function}"


_registered: set[str] = set()


def _register(library: Path) -> None:
    """Load the library and make XLA know its functions, once per process: XLA refuses a second copy."""
    if library.name in _registered:
        return
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise NotBuilt(f"the compiled gradients can't be loaded: {error}") from None
    for network in (*NETWORKS, NORMALISED):
        for function in ("sums", "logits"):
            symbol = getattr(loaded, f"{network}_{function}")
            jax.ffi.register_ffi_target(_target(network, function), jax.ffi.pycapsule(symbol), platform="cpu")
    _registered.add(library.name)


def _library() -> Path:
    """The library built from these sources by this compiler for this CPU, building it if it is not there."""
    compiler = next(
        filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None
    )
    if compiler is None:
        raise NotBuilt("no C++ compiler is there (Debian: apt install g++)")
    # What `-march=native` means on this CPU: a library built for one may not run on another.
    instructions = _run(compiler, *_FLAGS, "-dM", "-E", "-x", "c++", "/dev/null")
    parts = (_run(compiler, "--version"), *_FLAGS, instructions, version("jaxlib"))
    identity = hashlib.sha256("\n".join(parts).encode())
    for source in sorted((*_SOURCES.glob("*.h"), *_SOURCES.glob("*.cc"))):
        identity.update(source.read_bytes())
    folder = Path(jax.config.values["jax_compilation_cache_dir"] or cache_dir()) / "native"
    library = folder / f"gradients-{identity.hexdigest()[:16]}.so"
    if not library.exists():
        with atomic_write(library) as unfinished:
            include = f"-I{jax.ffi.include_dir()}"
            _run(compiler, *_FLAGS, include, str(_SOURCES / "gradients.cc"), "-o", str(unfinished))
    return library


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing said"])[0]
        raise NotBuilt(f"the C++ compiler {command[0]} failed: {said}")
    return done.stdout
