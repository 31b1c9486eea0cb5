"""A run's checkpoints: two generations, found again by what determines the run's result.

They lie in ``<parent>/<digest of the identity>/``. A run finds there what another process with the same
identity left, and nothing else; each manifest holds the identity in full and is compared again. The
newest generation that is whole is used, others are named and passed over, and all are removed when
the run has written its results.
"""

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from smcda._locks import locked, remove_unheld
from smcda.errors import notice
from smcda.run import generation
from smcda.run.fingerprint import differences, digest
from smcda.run.generation import SaveFailed, Unusable

KEPT = 2


class Checkpoints:
    """The generations of one run; what is said of them goes to standard error, a line each."""

    def __init__(self, parent: Path, identity: dict[str, Any], out: Path) -> None:
        """Read and make nothing yet. `out` lets a later run to the same place know what this one was."""
        self.folder = parent / digest(identity)
        self.saved_at: int | None = None
        """The iteration of the newest generation that is known to be good."""
        self.seconds = 0.0
        self._identity = identity
        self._out = str(out.absolute())
        self._good: list[Path] = []

    @contextmanager
    def alone(self, while_waiting: Callable[[], None]) -> Iterator[None]:
        """Keep out other processes that were told to make the same run into another place."""
        parent = self.folder.parent
        try:
            with locked(parent / f".{self.folder.name}.lock", f"using {self.folder}", while_waiting):
                yield
        finally:
            for leftover in parent.glob(f".{'[0-9a-f]' * len(self.folder.name)}.lock"):
                remove_unheld(leftover)
            with suppress(OSError):  # there are checkpoints in it, of this run or another
                parent.rmdir()

    def save(self, iteration: int, arrays: Any) -> int | None:
        """Save a generation and drop those before the last; a failure is said, and changes nothing else.

        Returns the iteration of the newest generation that is known to be good.
        """
        started = time.perf_counter()
        serials = [int(folder.name[-6:]) for folder in self._generations()]
        folder = self.folder / f"generation-{max(serials, default=0) + 1:06d}"
        content = {"identity": self._identity, "out": self._out, "iteration": iteration}
        try:
            generation.write(folder, arrays, content)
        except SaveFailed as reason:
            notice(f"the checkpoint of iteration {iteration} could not be saved: {reason}")
            with suppress(OSError):
                self.folder.rmdir()
            return self.saved_at
        finally:
            self.seconds += time.perf_counter() - started
        self.saved_at = iteration
        self._good = [*self._good, folder][-KEPT:]
        for entry in self.folder.iterdir():
            if entry not in self._good:
                shutil.rmtree(entry, ignore_errors=True)
        return self.saved_at

    def restore(self, like: Any) -> Any | None:
        """Arrays of the newest generation that can be used, or None for a fresh start.

        `like` is a tree of arrays of the kinds that the run needs.
        """
        folders = self._generations()
        for position, folder in reversed(list(enumerate(folders))):
            try:
                content = generation.read_manifest(folder)
                if differing := differences(self._identity, content["identity"]):
                    raise Unusable(f"it was made with another {', '.join(differing)}")
                arrays = generation.read(folder, like)
            except Unusable as reason:
                notice(f"checkpoint {folder} is not used: {reason}")
                continue
            self.saved_at = content["iteration"]
            self._good = folders[: position + 1]
            return arrays
        if folders:
            notice(f"no checkpoint in {self.folder} can be used: starting afresh")
        else:
            self._name_others()
        return None

    def remove(self) -> None:
        """Remove all generations: the results are there."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _generations(self) -> list[Path]:
        """All that are there, oldest first."""
        folders = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(folder for folder in folders if re.fullmatch(r"generation-\d{6}", folder.name))

    def _name_others(self) -> None:
        """Say it if a run to the same place, but not with the same result, left a checkpoint."""
        for manifest in sorted(self.folder.parent.glob(f"*/generation-*/{generation.MANIFEST}")):
            try:
                content = generation.read_manifest(manifest.parent)
            except Unusable:
                continue
            if content.get("out") == self._out:
                differing = ", ".join(differences(self._identity, content["identity"]))
                notice(f"checkpoint {manifest.parent} is not used: it was made with another {differing}")


def seconds_to_save(arrays: Any) -> float:
    """How long it takes to save arrays such as `Run.saved()`, on the disk of temporary files.

    The second of two is timed: the first also imports Orbax, once a process.
    """
    with tempfile.TemporaryDirectory() as parent:
        trial = Checkpoints(Path(parent), {}, Path(parent))
        trial.save(0, arrays)
        first = trial.seconds
        trial.save(1, arrays)
        return trial.seconds - first
