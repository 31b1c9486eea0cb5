"""One run by several processes, on one machine or on many: how they agree.

Every process runs the same program on its share of the particles (`smcda.devices`), and the programs meet in
collectives. Whoever is elsewhere then keeps all others waiting, so no process may act on its own on what
only it knows, be it a clock, a signal, a file or a mistake:

- the first process says what is due (`decided`), and alone looks for, locks and writes files (`first`);
- where one fails, all fail at the same place, with the same exit code (`together`, `first`);
- a signal to one of them is a signal to all: it goes along with whatever they tell one another.

What they tell is a letter of fixed length from each to all, so that one small program carries everything.
A process by itself (`Hosts`) is the first, agrees with itself, and pays nothing.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all, process_allgather

from smcda.errors import BadInput, Relayed, SmcdaError, Stopped, of_the_system
from smcda.identity import differences
from smcda.signals import StopSignals, too_early

LETTER_BYTES = 16_384
# Even if each character takes twelve bytes of JSON.
LONGEST_MESSAGE = 1_000


class Hosts:
    """All processes of a run, seen from one of them: here, a process by itself."""

    is_first = True

    def __init__(self, stop: StopSignals) -> None:
        self._stop = stop

    @property
    def stopped_by(self) -> str | None:
        """The signal that asks the run to stop."""
        return self._stop.received

    def check(self) -> None:
        """Leave if a signal came while there is nothing to save; also while `first` waits for something."""
        self._stop.check()

    def starting(self, farewell: Callable[[], None]) -> AbstractContextManager[None]:
        """Work during which there is nothing to save yet."""
        return self._stop.starting(farewell)

    def together(self) -> AbstractContextManager[None]:
        """Work that each process does for itself, without collectives, and in which it may fail."""
        return nullcontext()

    def first(self, action: Callable[[], Any]) -> Any:
        """Let the first process act, and all have the small result that it returns."""
        return action()

    def arrays_of_first(self, find: Callable[[], Any], like: Any) -> Any:
        """Let the first process find a tree of arrays such as `like`, or None, and all have it."""
        del like
        return find()

    def decided(self, value: Any) -> Any:
        """What the first process says."""
        return value

    def must_share(self, **facts: Any) -> None:
        """Refuse to work on different things."""


class Company(Hosts):
    """The same for a process that is one of several."""

    def __init__(self, stop: StopSignals) -> None:
        super().__init__(stop)
        self.is_first = jax.process_index() == 0
        self._agreed: str | None = None
        seen = [len(jax.local_devices(process_index=process)) for process in range(jax.process_count())]
        if len(set(seen)) > 1:
            raise BadInput(f"the processes see {', '.join(map(str, seen))} devices: give each as many")

    @property
    def stopped_by(self) -> str | None:
        """The signal that all have heard of, not what this process alone has."""
        return self._agreed

    def check(self) -> None:
        """Leave if any process got a signal."""
        self._tell_all(None)
        if self._agreed:
            raise Stopped(too_early(self._agreed))

    @contextmanager
    def starting(self, farewell: Callable[[], None]) -> Iterator[None]:
        """Leave only before or after, with all others: not at any moment, as a process by itself may."""
        del farewell
        self.check()
        yield
        self.check()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Fail if any process failed, by the problem of the lowest of them."""
        problem = None
        try:
            yield
        except (SmcdaError, OSError) as error:
            problem = _described(error)
        for process, theirs in enumerate(self._tell_all(problem)):
            if theirs is not None:
                code, message = theirs
                raise Relayed(code, message if process == 0 else f"process {process}: {message}")

    def first(self, action: Callable[[], Any]) -> Any:
        """Act or wait; where the first process fails, all do."""
        outcome: dict[str, Any]
        if self.is_first:
            try:
                outcome = {"value": action()}
            except (SmcdaError, OSError) as error:
                outcome = {"problem": _described(error)}
            self._tell_all(outcome)
        else:
            # Nothing yet: it waits for something, calling `check`.
            while (outcome := self._tell_all(None)[0]) is None:
                pass
        if "problem" in outcome:
            raise Relayed(*outcome["problem"])
        return outcome["value"]

    def arrays_of_first(self, find: Callable[[], Any], like: Any) -> Any:
        """Send what was found to all, as bytes."""
        found = like

        def look() -> bool:
            nonlocal found
            found = find()
            return found is not None

        if not self.first(look):
            return None

        # JAX would round doubles, and adding the others' zeros, which is how it sends, loses the sign of -0.
        def share(kind: np.ndarray, array: np.ndarray) -> np.ndarray:
            shared = broadcast_one_to_all(np.frombuffer(array.tobytes(), np.uint8))
            return np.frombuffer(shared.tobytes(), kind.dtype).reshape(kind.shape)

        return jax.tree.map(share, like, found)

    def decided(self, value: Any) -> Any:
        """Ask the first process."""
        return self._tell_all(value)[0]

    def must_share(self, **facts: Any) -> None:
        """Compare what each process is about to work on."""
        told = self._tell_all(facts)
        for process, theirs in enumerate(told):
            if names := differences(told[0], theirs):
                raise BadInput(
                    f"process {process} has another {', '.join(names)} than process 0: start all of them "
                    "with the same command, data and software"
                )

    def _tell_all(self, value: Any) -> list[Any]:
        """What each process tells here, in their order; also hears of signals."""
        text = json.dumps([value, self._stop.received]).encode()
        letter = np.frombuffer(text.ljust(LETTER_BYTES), np.uint8)
        letters = [json.loads(row.tobytes()) for row in process_allgather(letter)]
        self._agreed = self._agreed or next((signal for _, signal in letters if signal), None)
        return [value for value, _ in letters]


def _described(error: SmcdaError | OSError) -> tuple[int, str]:
    if isinstance(error, OSError):
        error = of_the_system(error)
    return error.exit_code, str(error)[:LONGEST_MESSAGE]
