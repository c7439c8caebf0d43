"""Ctrl-C, once and again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from streamlet.hosting.signals import GracefulStop

#: Ctrl-C at the worst moment: a wait on what it sets has just begun, and holds its lock.
INTERRUPTED = """
import signal, sys, threading
from streamlet.hosting.signals import GracefulStop

def interrupt(frame, what, argument):
    if frame.f_code is threading.Condition.wait.__code__:
        sys.settrace(None)
        signal.raise_signal(signal.SIGINT)

with GracefulStop() as stop:
    sys.settrace(interrupt)
    print("asked" if stop.asked.wait(300) else "nobody asked")
"""


def is_set(event: threading.Event) -> bool:
    """Whether it is, in the moment that may take."""
    return event.wait(300)


def test_once_asks_and_twice_raises() -> None:
    with GracefulStop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert is_set(stop.asked)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_cannot_be_broken_into_hears_of_the_second_and_ends_at_the_third() -> None:
    with GracefulStop(breakable=False) as stop:
        signal.raise_signal(signal.SIGINT)
        assert (is_set(stop.asked), stop.now.is_set()) == (True, False)
        signal.raise_signal(signal.SIGTERM)
        assert is_set(stop.now)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_drain_is_asked_for_by_a_signal_of_its_own_or_the_first_sigterm() -> None:
    with GracefulStop(drains=True) as stop:
        signal.raise_signal(signal.SIGUSR1)
        assert (is_set(stop.drain), stop.asked.is_set()) == (True, False)
    with GracefulStop(drain_on_sigterm=True) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert (is_set(stop.drain), stop.asked.is_set()) == (True, False)
        signal.raise_signal(signal.SIGTERM)
        assert is_set(stop.asked)


def test_the_end_of_the_terminal_stops_where_that_is_wanted_and_nohup_does_not_forbid_it() -> None:
    ended = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with GracefulStop(hangs_up=True):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with GracefulStop(hangs_up=True) as stop:
            signal.raise_signal(signal.SIGHUP)
            assert is_set(stop.asked)
    finally:
        signal.signal(signal.SIGHUP, ended)


def test_behind_the_block_signals_do_what_they_did() -> None:
    before = signal.getsignal(signal.SIGINT)
    with GracefulStop():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_a_signal_while_a_wait_for_it_begins_is_heard() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    assert ended.stdout == "asked\n", ended.stderr
