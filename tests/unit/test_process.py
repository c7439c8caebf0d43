"""What a worker process tells its supervisor."""

from __future__ import annotations

import json
import os
import threading

from streamlet.process import PipeObserver

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
