"""Reads that wait: for newest state, which the loop of the stream thread reads; for its start."""

from __future__ import annotations

import threading

import pytest

import streamlet as sl
from streamlet.state.query_errors import StreamsNotStartedError
from tests.unit.queries.served import serving


def test_a_read_that_waited_until_others_may_have_the_task_is_refused() -> None:
    app = sl.App("one")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    made = serving(app, {"in": 1})
    made.driver.pipe_input("in", "k", 1)
    made.serve()
    refused: list[str] = []

    def ask() -> None:
        with pytest.raises(StreamsNotStartedError):  # it looks again, until there is no worker
            made.store("counts", newest=True, timeout_ms=600_000).get("k")
        refused.append("k")

    asking = threading.Thread(target=ask)
    asking.start()
    while made.served._waiting.empty():
        made.served.wait(0.01)
    made.owns = False
    made.served.answer()
    made.served.end()
    asking.join(300)
    assert refused == ["k"]
    made.driver.close()


def test_a_call_waits_for_a_run_that_is_starting_as_long_as_it_may() -> None:
    app = sl.App("one")
    app.stream("in", key=str, value=int).group_by_key().count(store="counts")
    made = serving(app, {"in": 1})
    worker, made.served.worker = made.served.worker, None
    assert worker is not None
    made.starting = lambda: True
    with pytest.raises(StreamsNotStartedError, match="it is starting; a longer timeout= waits"):
        made.store("counts").get("k")

    def begins() -> bool:
        made.served.begin(worker)
        made.driver.pipe_input("in", "k", 1)
        made.serve()
        return True

    made.starting = begins
    assert made.store("counts", timeout_ms=300_000).get("k") == 1
    made.driver.close()
