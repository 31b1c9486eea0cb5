"""Signals that ask a run to stop are noted while it iterates, and only then."""

import signal
import threading

import pytest

from smcda.runs.signals import StopSignals


def handlers():
    return [signal.getsignal(number) for number in signal.Signals if number not in (9, 19)]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_is_noted_and_handlers_are_restored(name):
    before = handlers()
    with StopSignals() as stop:
        signal.raise_signal(signal.Signals[name])
        signal.raise_signal(signal.Signals[name])
        assert stop.received == name
    assert handlers() == before


def test_a_second_interrupt_after_a_while_quits_at_once(monkeypatch):
    clock = iter([10.0, 10.5, 12.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with pytest.raises(KeyboardInterrupt), StopSignals() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # the same Ctrl-C, passed on by somebody else
        assert stop.received == "SIGINT"
        signal.raise_signal(signal.SIGINT)


def test_outside_the_main_thread_no_handler_is_installed():
    before, seen = handlers(), []

    def look():
        with StopSignals():
            seen.append(handlers())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]
