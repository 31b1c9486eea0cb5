"""Signals that ask a run to stop, heeded where they lose nothing.

SIGTERM (a scheduler preempts), SIGINT (Ctrl-C) and SIGUSR1 (SLURM's warning) only leave a note. The
run reads it between blocks of iterations, saves a checkpoint and leaves; nothing is ever cut in half.
While a run is still compiling there is nothing to save, and Python could not read the note before the
compiler returns: there a process that owns nothing else leaves at once.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from smcda.errors import Stopped, notice

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# A terminal and a workflow manager may both pass on one Ctrl-C: only a later one means impatience.
IMPATIENT_AFTER_SECONDS = 1.0


class StopSignals:
    """While entered, notes the first such signal in `received`; afterwards all is as it was.

    Only the main thread may set handlers: elsewhere nothing is noted, and signals do what they did.
    """

    def __init__(self, exits: bool = False) -> None:
        """With `exits`, a signal that comes before there is anything to save ends the process at once."""
        self.received: str | None = None
        self._since = 0.0
        self._exits = exits
        self._farewell: Callable[[], None] | None = None
        self._previous: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> "StopSignals":
        # Also where a shell started the process with SIGINT ignored, as it does with `command &`.
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        if self._previous and self._exits:
            reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            self._previous_writer = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._previous and self._exits:
            signal.set_wakeup_fd(self._previous_writer)
            os.close(self._writer)
        for number, handler in self._previous.items():
            # None: set by other than Python code, which Python can't set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def starting(self, farewell: Callable[[], None]) -> Iterator[None]:
        """Work that may be left at any moment, after a call of `farewell`."""
        self.check()
        self._farewell = farewell
        try:
            yield
        finally:
            self._farewell = None
        self.check()

    def check(self) -> None:
        """Leave if a signal came while there is nothing to save."""
        if self.received is not None:
            raise Stopped(too_early(self.received))

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if self.received is None:
            self.received, self._since = signal.Signals(number).name, now
        elif number == signal.SIGINT and now - self._since > IMPATIENT_AFTER_SECONDS:
            raise KeyboardInterrupt

    def _watch(self, reader: int) -> None:
        """Read signals as they come, also while the main thread is inside the compiler."""
        while number := os.read(reader, 1):
            if number[0] in SIGNALS and self._farewell is not None:
                self._farewell()
                notice(too_early(signal.Signals(number[0]).name))
                os._exit(Stopped.exit_code)
        os.close(reader)


def too_early(name: str) -> str:
    """What to say when there was nothing to save yet."""
    return f"stopped by {name} before the first iteration: start again"
