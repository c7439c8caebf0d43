"""The supervisor with real processes that play workers."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest

from streamlet.clock import SystemClock
from streamlet.runtime.instance import Instance, RestartPolicy

#: Plays a worker: says that it is up, obeys orders, or does what its first order says.
WORKER = """
import json, os, sys, time
fd = int(sys.argv[sys.argv.index("--events-fd") + 1])
say = lambda **event: os.write(fd, json.dumps(event).encode() + b"\\n")
orders = json.loads(sys.stdin.readline())
say(up=os.getpid())
if orders.get("outage"):
    say(passing=True)
    sys.exit(1)
if orders.get("exit") is not None and orders["member"] == orders.get("who", orders["member"]):
    sys.exit(orders["exit"])
for line in sys.stdin:
    order = json.loads(line)
    say(told=order["stop"])
    if not orders.get("deaf"):
        sys.exit(0)
say(told="closed")
"""


class Events:
    """Collects what workers report and reacts to it."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[str, Any]]] = []
        self.react: Any = None

    def __call__(self, member: int, event: dict[str, Any]) -> None:
        self.seen.append((member, event))
        if self.react is not None:
            self.react(member, event)

    def ups(self) -> list[int]:
        return [event["up"] for _, event in self.seen if "up" in event]


def instance(events: Events, count: int = 1, **orders: Any) -> Instance:
    return Instance(
        [sys.executable, "-c", WORKER],
        orders,
        count,
        clock=SystemClock(),
        on_event=events,
        restart=RestartPolicy(first_ms=1, longest_ms=4, most=3, within_ms=60_000),
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_graceful_stop_reaches_every_worker() -> None:
    events = Events()
    running = instance(events, count=2)
    events.react = lambda member, event: len(events.ups()) == 2 and running.stop()
    assert running.run() == 0
    assert [event["told"] for _, event in events.seen if "told" in event] == ["graceful"] * 2


def test_a_worker_that_keeps_failing_is_started_again_and_then_given_up() -> None:
    events = Events()
    assert instance(events, exit=1).run() == 1
    assert len(events.ups()) == 3


def test_failures_that_pass_by_themselves_are_not_counted() -> None:
    """A broker that is away for long makes worker after worker fail."""
    events = Events()
    running = instance(events, outage=True)
    events.react = lambda member, event: len(events.ups()) == 6 and running.stop()
    running.run()
    assert len(events.ups()) == 6


def test_a_killed_worker_is_started_again() -> None:
    events = Events()
    running = instance(events)

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event and len(events.ups()) == 1:
            os.kill(event["up"], signal.SIGKILL)
        elif "up" in event:
            running.stop()

    events.react = react
    assert running.run() == 0
    assert len(events.ups()) == 2


@pytest.mark.parametrize("code", [2, 3, 5, 6])
def test_a_failure_that_a_restart_cannot_mend_ends_the_instance(code: int) -> None:
    events = Events()
    assert instance(events, count=2, exit=code, who=1).run() == code
    assert len(events.ups()) == 2


def test_the_second_interrupt_kills_workers_that_do_not_stop() -> None:
    events = Events()
    running = instance(events, deaf=True)

    def react(member: int, event: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    events.react = react
    assert running.run() == 130
    assert not alive(events.ups()[0])


def test_a_worker_notices_that_its_supervisor_is_gone() -> None:
    """Its end of the pipe closes, whatever killed the supervisor."""
    events = Events()
    running = instance(events)

    def react(member: int, event: dict[str, Any]) -> None:
        if "up" in event:
            worker = running._workers[0]
            assert worker.process is not None
            assert worker.process.stdin is not None
            worker.process.stdin.close()

    events.react = react
    assert running.run() == 0
    assert {"told": "closed"} in [event for _, event in events.seen]
