"""What a practitioner would use instead, on the same models, data and gradients: `deep_ensemble` and `sghmc`.

Both end with a `Result` and the files of any run, and count gradient evaluations as the sampler does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smcda.baselines.config import EnsembleConfig as EnsembleConfig
    from smcda.baselines.config import SGHMCConfig as SGHMCConfig
    from smcda.baselines.run import deep_ensemble as deep_ensemble
    from smcda.baselines.run import sghmc as sghmc

_HOMES = {"EnsembleConfig": "config", "SGHMCConfig": "config", "deep_ensemble": "run", "sghmc": "run"}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    # On first use: the command's help must not wait for JAX.
    if name not in _HOMES:
        raise AttributeError(f"module 'smcda.baselines' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"smcda.baselines.{_HOMES[name]}"), name)
