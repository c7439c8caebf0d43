"""Ctrl-C, once and again."""

from __future__ import annotations

import signal

import pytest

from streamlet.runtime.signals import GracefulStop


def test_once_asks_and_twice_raises() -> None:
    with GracefulStop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_cannot_be_broken_into_hears_of_the_second_and_ends_at_the_third() -> None:
    with GracefulStop(breakable=False) as stop:
        signal.raise_signal(signal.SIGINT)
        assert (stop.asked.is_set(), stop.now.is_set()) == (True, False)
        signal.raise_signal(signal.SIGTERM)
        assert stop.now.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_drain_is_asked_for_by_a_signal_of_its_own_or_the_first_sigterm() -> None:
    with GracefulStop(drains=True) as stop:
        signal.raise_signal(signal.SIGUSR1)
        assert (stop.drain.is_set(), stop.asked.is_set()) == (True, False)
    with GracefulStop(drain_on_sigterm=True) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert (stop.drain.is_set(), stop.asked.is_set()) == (True, False)
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked.is_set()


def test_behind_the_block_signals_do_what_they_did() -> None:
    before = signal.getsignal(signal.SIGINT)
    with GracefulStop():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
