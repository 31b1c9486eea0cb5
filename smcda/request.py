"""What a run is asked for: checked at the door, before anything is read or compiled."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from smcda.errors import BadInput
from smcda.models.lenet import NETWORKS
from smcda.parallel.plan import GRADIENTS
from smcda.settings import Settings, one_of

PRIOR_SCALES = (1e-6, 1e6)  # squares of these, and sums of such squares, are still numbers in float32


@dataclass(frozen=True)
class RunRequest:
    """What to run and where to put it.

    Checkpoints go into `checkpoint_dir` (None: beside `out`), every `checkpoint_every` seconds (0: only
    when a signal stops the run).
    """

    data: Path
    network: str
    out: Path
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    batch_norm: bool = False
    prior_scale: float | None = None
    evaluate_every: int = 10
    save_posterior: bool = False
    overwrite: bool = False
    checkpoint_dir: Path | None = None
    checkpoint_every: float = 300.0
    gradients: str = "auto"

    def __post_init__(self) -> None:
        """Check everything that can be known before the data are read."""
        one_of("network", self.network, NETWORKS)
        one_of("gradients", self.gradients, GRADIENTS)
        if self.batch_norm and self.network != "fashion_cnn":
            raise BadInput(
                f"batch_norm is an option of network fashion_cnn, not of {self.network}: leave it out"
            )
        if self.batch_norm and self.settings.first_batch % self.settings.batch_size:
            raise BadInput(
                f"initial_batch is {self.settings.first_batch}, but with batch_norm it must be a multiple of "
                f"batch_size ({self.settings.batch_size}), because statistics are taken a minibatch"
            )
        least, most = PRIOR_SCALES
        if self.prior_scale is not None and not least <= self.prior_scale <= most:
            raise BadInput(
                f"prior_scale is {self.prior_scale}, but must be from {least:g} to {most:g}: choose another, "
                "or leave it out for 1/sqrt(fan_in) a layer"
            )
        if not 0 <= self.seed < 2**32:
            raise BadInput(f"seed is {self.seed}, but must be from 0 to 2^32 - 1: choose another")
        if self.evaluate_every < 1:
            raise BadInput(
                f"evaluate_every is {self.evaluate_every}, but must be at least 1: choose 1 or more"
            )
        if not (math.isfinite(self.checkpoint_every) and self.checkpoint_every >= 0):
            raise BadInput(
                f"checkpoint_every is {self.checkpoint_every}, but must be a finite number of at least 0: "
                "300 seconds is the default, 0 saves only when a signal stops the run"
            )

    def check_folders(self) -> None:
        """Check where results and checkpoints are to go; apart, because one process alone writes there."""
        check_folder("checkpoint_dir", self.checkpoints)
        check_output(self.out, self.overwrite)

    @property
    def checkpoints(self) -> Path:
        """The folder for checkpoints: beside `out` rather than inside, which a workflow may clear."""
        out = self.out.resolve()
        return self.checkpoint_dir or out.parent / f"{out.name}.checkpoints"


def check_output(out: Path, overwrite: bool) -> None:
    """Refuse an output folder that can't be written, or that holds a finished run."""
    check_folder("out", out)
    if (out / "metrics.json").exists() and not overwrite:
        raise BadInput(
            f"output {out} already holds a finished run: choose another --out, or give --overwrite"
        )


def check_folder(name: str, folder: Path) -> None:
    """Refuse a folder that is not there and can't be made, or can't be written."""
    option = f"--{name.replace('_', '-')}"
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{name} {folder} is a file, but must be a folder: choose another {option}")
    parent = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise BadInput(
            f"{name} {folder} can't be made, {parent} is not a writable folder: choose another {option}"
        )
