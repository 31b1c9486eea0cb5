"""A small store of checkpoints, for tests to fill, read and break."""

import numpy as np

from smcda.run.checkpoint import Checkpoints

IDENTITY = {"scheme": "linear", "step_size": 0.1, "seed": 3, "options": ["a", 1, None]}
ARRAYS = {"particles": np.arange(12, dtype=np.float32).reshape(3, 4), "flags": np.array([True, False])}
LIKE = ARRAYS | {"iteration": np.asarray(0)}


def store(folder, **changes):
    return Checkpoints(folder, IDENTITY | changes, folder.parent / "out")


def restored(folder):
    """The iteration of what is restored, or None."""
    found = store(folder).restore(LIKE)
    return None if found is None else int(found["iteration"])


def two_generations(folder):
    """Save iterations 1 and 2; their folders."""
    checkpoints = store(folder)
    for iteration in (1, 2):
        checkpoints.save(iteration, ARRAYS | {"iteration": np.asarray(iteration)})
    return sorted(folder.glob("*/generation-*"))
