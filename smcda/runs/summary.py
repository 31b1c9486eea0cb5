r"""A posterior in a table: mean, standard deviation, quantiles and effective sample size of every parameter.

The effective sample size is that of the mean: the parameter's variance over the variance of its estimated
mean. Particles that descend from one first draw may still be alike, so the latter is summed over families,
``sum_i (sum_{j in family i} w_j (theta_j - mean))^2``. Where moves mix well it is about J; one family alone
tells nothing about it and counts as one.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from smcda.models.flat import Parameters

QUANTILES = {"5 %": 0.05, "median": 0.5, "95 %": 0.95}
MAX_ROWS = 100


class Summary(dict[str, dict[str, float]]):
    """One row per scalar parameter, by name; prints as a table."""

    def __repr__(self) -> str:
        width = max(map(len, [*self, "parameter"]))
        names = list(next(iter(self.values())))
        lines = [f"{'parameter':{width}}" + "".join(f"{name:>12}" for name in names)]
        for parameter, row in list(self.items())[:MAX_ROWS]:
            cells = [f"{value:12.0f}" if name == "ess" else f"{value:12.4g}" for name, value in row.items()]
            lines.append(f"{parameter:{width}}" + "".join(cells))
        if len(self) > MAX_ROWS:
            lines.append(f"... and {len(self) - MAX_ROWS} more")
        return "\n".join(lines)

    __str__ = __repr__


def summarise(
    parameters: Parameters,
    weights: Float[np.ndarray, " particle"],
    root_ancestor: Int[np.ndarray, " particle"],
) -> Summary:
    """Summarise weighted particles, whose family each is known."""
    rows = Summary()
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameters):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "parameter"
        values = np.asarray(leaf, np.float64)
        for index in np.ndindex(values.shape[1:]):
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            rows[label] = _row(values[(slice(None), *index)], weights, root_ancestor)
    return rows


def _row(values: np.ndarray, weights: Any, root_ancestor: Any) -> dict[str, float]:
    weights = np.asarray(weights, np.float64) / np.sum(weights)
    mean = weights @ values
    centred = values - mean
    variance = weights @ centred**2
    n_families = len(np.unique(root_ancestor))
    # Deviations from the mean that the families themselves have: one of them is not free.
    of_mean = np.sum(np.bincount(root_ancestor, weights * centred) ** 2) * n_families / max(n_families - 1, 1)
    order = np.argsort(values)
    # The middle of each particle's share, so that equal weights give the ordinary quantiles.
    places = np.cumsum(weights[order]) - weights[order] / 2
    quantiles = {name: np.interp(q, places, values[order]) for name, q in QUANTILES.items()}
    ess = min(variance / of_mean, len(values)) if n_families > 1 and of_mean > 0 else 1.0
    return {"mean": mean, "sd": np.sqrt(variance), **quantiles, "ess": ess}
