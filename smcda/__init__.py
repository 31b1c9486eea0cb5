"""Sequential Monte Carlo over neural-network weights, with data annealing.

``sample`` is the one-call interface to any model; ``gaussian`` and ``from_density`` make priors for it.
They are imported on first use, so that the command's `--help` and `data` do not wait for JAX.
"""

from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "sample": "smcda.run.sample",
    "gaussian": "smcda.models.priors",
    "from_density": "smcda.models.priors",
}

__all__ = ["from_density", "gaussian", "sample"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'smcda' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
