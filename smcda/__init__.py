"""Sequential Monte Carlo over the parameters of any model with a likelihood, with data annealing.

``run`` samples a `Model`, ``sample`` is its shortest form, for a bare log-likelihood. Names are imported on
first use, so that the command's `--help` and `data` do not wait for JAX.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smcda.config import SamplerConfig as SamplerConfig
    from smcda.data.dataset import Dataset as Dataset
    from smcda.errors import BadInput as BadInput
    from smcda.errors import Diverged as Diverged
    from smcda.models import likelihoods as likelihoods
    from smcda.models import priors as priors
    from smcda.models import starts as starts
    from smcda.models.base import Model as Model
    from smcda.models.flax import from_flax as from_flax
    from smcda.models.priors import from_log_density as from_log_density
    from smcda.models.priors import gaussian as gaussian
    from smcda.models.starts import Start as Start
    from smcda.runs.prior_choice import PriorChoice as PriorChoice
    from smcda.runs.prior_choice import choose_prior_scale as choose_prior_scale
    from smcda.runs.result import Result as Result
    from smcda.runs.run import run as run
    from smcda.runs.run import sample as sample

__version__ = "0.1.0"

_HOMES = {
    "BadInput": "smcda.errors",
    "Dataset": "smcda.data.dataset",
    "Diverged": "smcda.errors",
    "Model": "smcda.models.base",
    "PriorChoice": "smcda.runs.prior_choice",
    "Result": "smcda.runs.result",
    "SamplerConfig": "smcda.config",
    "Start": "smcda.models.starts",
    "choose_prior_scale": "smcda.runs.prior_choice",
    "from_flax": "smcda.models.flax",
    "from_log_density": "smcda.models.priors",
    "gaussian": "smcda.models.priors",
    "likelihoods": "smcda.models",
    "priors": "smcda.models",
    "run": "smcda.runs.run",
    "sample": "smcda.runs.run",
    "starts": "smcda.models",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'smcda' has no attribute {name!r}")
    from importlib import import_module

    home = _HOMES[name]
    return import_module(f"{home}.{name}") if home == "smcda.models" else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
