"""What a worker process tells its supervisor, and what it does before it has any orders."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from streamlet.errors import StreamletError
from streamlet.hosting import process
from streamlet.hosting.process import EventPipe, main

EVENTS, LONG = 20, "x" * 200_000


def test_events_of_several_threads_do_not_run_into_one_another() -> None:
    """A pipe takes long ones in pieces, and a line that cannot be read ends the instance."""
    read, write = os.pipe()
    pipe_of_events = EventPipe(write)

    def tell() -> None:
        for number in range(EVENTS):
            pipe_of_events.tell({"number": number, "text": LONG})

    threads = [threading.Thread(target=tell) for _ in range(2)]
    for thread in threads:
        thread.start()
    with os.fdopen(read, "rb") as pipe:
        told = [json.loads(pipe.readline())["number"] for _ in range(2 * EVENTS)]
    for thread in threads:
        thread.join()
    assert sorted(told) == sorted([*range(EVENTS)] * 2)


def test_the_program_of_a_worker_has_loaded_what_it_needs_and_no_more() -> None:
    """What only people look at takes memory; what it loads later, tasks wait for."""
    code = "import sys, streamlet.hosting.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    assert {"confluent_kafka", "kafka", "rocksdict", "streamlet.hosting.assembly"} <= loaded
    assert not {"rich", "typer", "pyspark", "streamlet.broker"} & loaded


def test_a_worker_is_not_stopped_by_the_terminal_that_it_writes_to() -> None:
    """It is in a process group of its own, which ``stty tostop`` keeps from writing."""
    before = signal.getsignal(signal.SIGTTOU)
    (read, write), events = os.pipe(), os.dup(1)
    os.close(write)
    try:
        assert main(events, read) == 0, "nobody had orders for it"
        assert signal.getsignal(signal.SIGTTOU) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTTOU, before)


def reported(monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of a worker that ends with an error."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(process, "_work", fail)
    monkeypatch.setattr(process, "set_up_logging", lambda *_: None)
    orders, to_worker = os.pipe()
    os.write(to_worker, b'{"log_level": "info", "log_json": false}\n')
    interval, before = sys.getswitchinterval(), signal.getsignal(signal.SIGTTOU)
    read, write = os.pipe()
    try:
        code = main(write, orders)
    finally:
        os.close(to_worker)
        sys.setswitchinterval(interval)
        signal.signal(signal.SIGTTOU, before)
    began, event = map(json.loads, os.read(read, 65_536).splitlines())
    os.close(read)
    assert began == {"event": "began"}
    return code, event


def test_an_error_that_is_none_of_ours_is_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As RocksDB or librdkafka raise it where nobody expected it."""
    code, event = reported(monkeypatch, RuntimeError("IO error: No space left"))
    assert (code, event["event"], event["passing"]) == (1, "failed", False)
    assert re.match(r"RuntimeError: IO error: .*test_process\.py:\d+ in fail; ", event["message"])
    assert "\n" not in event["message"]
    assert "Traceback" not in capfd.readouterr().err


def test_what_fails_while_a_worker_closes_does_not_hide_what_ended_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = RuntimeError("Corruption: block checksum mismatch")
    later.__context__ = StreamletError("a record failed")
    code, event = reported(monkeypatch, later)
    assert (code, event["error"], event["message"]) == (1, "StreamletError", "a record failed")
