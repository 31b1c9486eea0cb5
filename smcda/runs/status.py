"""Where a run stands, in a small file of its output folder while it is under way: `smcda watch` reads it.

A thread of its own writes the file, so that sampling never waits for a file system, and a long iteration
still shows that the process lives. The file is no result: it is gone once the run is done, and says why where
it ended otherwise. After `kill -9` it stays as it was, and its age tells.
"""

import json
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from smcda.errors import Diverged, Stopped

NAME = ".status.json"
SECONDS_BETWEEN_WRITES = 5.0
PATIENCE_S = 2.0
"""How long the end of a run waits for a file system that hangs."""

SHOWN = ("batch_size", "beta", "ess", "acceptance")
"""Columns of the trace whose newest value the file has."""

RUNNING, STOPPED, DIVERGED, FAILED = "running", "stopped", "diverged", "failed"
logger = logging.getLogger("smcda")


class Status:
    """While entered, the file exists and is renewed every few seconds. The caller holds the folder's lock."""

    def __init__(self, out: Path, **known: Any) -> None:
        """Write nothing yet; `known` is what the file says of the run from its beginning."""
        self._file = out / NAME
        self._values = known | {"state": RUNNING, "host": socket.gethostname(), "pid": os.getpid()}
        self._started = time.time()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="status", daemon=True)
        self._has_failed = False

    def __enter__(self) -> "Status":
        self._thread.start()
        return self

    def update(self, **values: Any) -> None:
        """Say where the run stands from now on; costs no more than a dictionary."""
        # A new one, which the thread reads whole or not at all.
        self._values = self._values | values

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._end.set()
        self._thread.join(PATIENCE_S)
        if error is not None:
            self.update(state=_state(error), message=" ".join(f"{error}".split()) or type(error).__name__)
            self._write()
            return
        for path in (self._file, self._temporary):
            try:
                path.unlink(missing_ok=True)
            except OSError as failure:
                self._report(failure)

    @property
    def _temporary(self) -> Path:
        return self._file.with_name(f"{NAME}.new")

    def _keep_writing(self) -> None:
        self._write()
        while not self._end.wait(SECONDS_BETWEEN_WRITES):
            self._write()

    def _write(self) -> None:
        """Replace the file; nothing is synced to disk, because nothing is lost with it."""
        now = time.time()
        text = json.dumps(self._values | {"elapsed_s": now - self._started, "written": now}, default=float)
        try:
            self._temporary.write_text(text + "\n", encoding="utf-8")
            self._temporary.replace(self._file)
        except OSError as failure:
            self._report(failure)

    def _report(self, failure: OSError) -> None:
        """Say once that the file can't be kept; the run goes on."""
        if not self._has_failed:
            self._has_failed = True
            reason = failure.strerror or failure
            logger.warning("%s can't be written (%s): smcda watch does not see this run", self._file, reason)


def _state(error: BaseException) -> str:
    """What the file says of a run that ended by an exception."""
    if isinstance(error, Stopped | KeyboardInterrupt):
        return STOPPED
    return DIVERGED if isinstance(error, Diverged) else FAILED
