"""A small store of checkpoints, for tests to fill, read and break."""

import numpy as np

from smcda.runs.checkpoint import Checkpoints

FINGERPRINT = {"scheme": "linear", "step_size": 0.1, "seed": 3, "options": ["a", 1, None]}
# Large enough to be stored in a file of their own.
PARTICLES = np.random.default_rng(0).normal(size=(30, 400)).astype(np.float32)
ARRAYS = {"particles": PARTICLES, "flags": np.array([True, False])}
LIKE = ARRAYS | {"iteration": np.asarray(0)}


def store(folder, **changes):
    return Checkpoints(folder, FINGERPRINT | changes, folder.parent / "out")


def restored(folder):
    """The iteration of what is restored, or None."""
    found = store(folder).restore(LIKE)
    return None if found is None else int(found["iteration"])


def two_checkpoints(folder):
    """Save iterations 1 and 2; their folders."""
    checkpoints = store(folder)
    for iteration in (1, 2):
        checkpoints.save(iteration, ARRAYS | {"iteration": np.asarray(iteration)})
    return [checkpoints.folder / name for name in ("1", "2")]
