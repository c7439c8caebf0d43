"""A worker process before it has any orders."""

from __future__ import annotations

import io
import signal
import sys

import pytest

from streamlet import process


def test_a_worker_is_not_stopped_by_the_terminal_that_it_writes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is in a process group of its own, which ``stty tostop`` keeps from writing."""
    before = signal.getsignal(signal.SIGTTOU)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    try:
        assert process.main(["--events-fd", "1"]) == 0, "nobody had orders for it"
        assert signal.getsignal(signal.SIGTTOU) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTTOU, before)
