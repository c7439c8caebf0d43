"""What a worker process tells its supervisor, and what it does before it has any orders."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading

import pytest

from streamlet.process import PipeObserver, main

EVENTS, LONG = 20, "x" * 200_000


def test_events_of_several_threads_do_not_run_into_one_another() -> None:
    """A pipe takes long ones in pieces, and a line that cannot be read ends the instance."""
    read, write = os.pipe()
    observer = PipeObserver(write)

    def tell() -> None:
        for number in range(EVENTS):
            observer.tell(number=number, text=LONG)

    threads = [threading.Thread(target=tell) for _ in range(2)]
    for thread in threads:
        thread.start()
    with os.fdopen(read, "rb") as pipe:
        told = [json.loads(pipe.readline())["number"] for _ in range(2 * EVENTS)]
    for thread in threads:
        thread.join()
    os.close(write)
    assert sorted(told) == sorted([*range(EVENTS)] * 2)


def test_a_worker_is_not_stopped_by_the_terminal_that_it_writes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is in a process group of its own, which ``stty tostop`` keeps from writing."""
    before = signal.getsignal(signal.SIGTTOU)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    try:
        assert main(["--events-fd", "1"]) == 0, "nobody had orders for it"
        assert signal.getsignal(signal.SIGTTOU) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTTOU, before)
