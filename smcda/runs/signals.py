"""Signals that ask a run to stop, obeyed where nothing is lost.

SIGTERM (a scheduler preempts), SIGINT (Ctrl-C) and SIGUSR1 (SLURM's warning) are only noted. The run looks
between blocks of iterations, saves a checkpoint and stops. The handlers are installed just before the first
iteration: earlier there is nothing to save, and the signal's default action ends the process at once.
"""

import signal
import threading
import time
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# A terminal and a workflow manager may both pass on one Ctrl-C: only a later one means impatience.
FORCE_QUIT_AFTER_S = 1.0


class StopSignals:
    """While entered, keeps the name of the first such signal in `received`; on exit restores the handlers.

    Only the main thread may set handlers: in others nothing is noted, and signals act as elsewhere.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._received_at = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        # Also where a shell started the process with SIGINT ignored, as it does with `command &`.
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            # None: set by other than Python code, which Python can't set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if self.received is None:
            self.received, self._received_at = signal.Signals(number).name, now
        elif number == signal.SIGINT and now - self._received_at > FORCE_QUIT_AFTER_S:
            raise KeyboardInterrupt
