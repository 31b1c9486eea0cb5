"""How methods and scores of the small-data study are named and drawn."""

from collections.abc import Iterable
from itertools import cycle

from lib.labels import FALLBACK_LOOKS, Label, label, ordered

METHODS = {
    "smc_adaptive": Label("SMC, any prior", "SMC, adaptive", "#0B4F8A", "p", (0, (6, 2))),
    "smc_evidence": Label("SMC, prior by evidence", "", "#3B2C8F", "o", "-"),
    "smc_hierarchical": Label("SMC, hierarchical prior", "", "#B5274B", "s", (0, (5, 1.2, 1, 1.2))),
    "smc_linear_hmc": Label("published scheme linear, HMC", "linear, HMC", "#117F74", "D", (0, (5, 1.5))),
    "smc_constant_to_refine_hmc": Label(
        "published scheme constant-to-refine, HMC", "constant-to-refine, HMC", "#5F8B1F", "v", (0, (1, 1))
    ),
    "deep_ensemble": Label("deep ensemble", "", "#000000", "^", "-"),
    "deep_ensemble_large": Label("large deep ensemble", "", "#7F7F7F", "<", (0, (4, 1))),
    "sghmc": Label("SGHMC", "", "#E07B00", "P", (0, (3, 1, 1, 1, 1, 1))),
    "sghmc_long": Label("SGHMC, long cycles", "", "#6DC3F0", "X", (0, (8, 1.5, 2, 1.5))),
}
SCORES = {
    "ood_auroc": Label("AUROC of foreign images", better="higher"),
    "ood_auroc_mutual_information": Label("AUROC of foreign images (mutual information)", better="higher"),
    "log_evidence": Label("log evidence", decimals=1, better="higher"),
}


def score_label(name: str) -> Label:
    """The label of a score; most are those of the published study."""
    return SCORES.get(name) or label(name)


def method_labels(names: Iterable[str]) -> dict[str, Label]:
    """Labels of the methods of a figure, in order: those of the table first, then others by name."""
    looks = cycle(FALLBACK_LOOKS)
    return {
        name: METHODS.get(name) or Label(label(name).name, "", *next(looks))
        for name in ordered(names, METHODS)
    }
