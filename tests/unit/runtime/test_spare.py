"""The process that is ready before a worker crashes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from streamlet.clock import ManualClock
from streamlet.runtime.spare import Launched, Spare, launch

#: Says with its events that it lives, and waits for orders.
WAITS = "import os, sys; os.write(int(sys.argv[-1]), b'up'); sys.stdin.read()"
COMMAND = [sys.executable, "-c", WAITS]
PAUSE_MS = 5_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def spare(clock: ManualClock) -> Iterator[Spare]:
    one = Spare(COMMAND, clock, PAUSE_MS)
    yield one
    one.end()


def ready(spare: Spare, clock: ManualClock) -> Launched:
    """The process, once it waits for orders."""
    clock.advance(PAUSE_MS)
    spare.keep()
    waiting = spare._waiting
    assert waiting is not None
    assert os.read(waiting.events, 2) == b"up"
    return waiting


def test_nothing_is_spare_before_workers_have_run_for_a_while(
    spare: Spare, clock: ManualClock
) -> None:
    """Its start would take the processors from them."""
    spare.keep()
    assert spare.take() is None
    clock.advance(PAUSE_MS - 1)
    spare.keep()
    assert spare.take() is None
    clock.advance(PAUSE_MS - 1)
    spare.keep()
    assert spare._waiting is None


def test_the_process_is_there_for_one_worker_and_then_there_is_another(
    spare: Spare, clock: ManualClock
) -> None:
    assert spare.take() is None
    first = ready(spare, clock)
    spare.keep()
    assert spare._waiting is first, "one is enough"
    assert spare.take() is first
    assert spare.take() is None
    second = ready(spare, clock)
    assert second.process.pid != first.process.pid
    assert first.process.poll() is None
    first.end()


def test_a_process_that_died_is_no_spare_and_none_follows_it(
    spare: Spare, clock: ManualClock
) -> None:
    """Where memory is short, the next one would be killed as well."""
    spare.take()
    dead = ready(spare, clock)
    os.kill(dead.process.pid, signal.SIGKILL)
    assert os.read(dead.events, 1) == b"", "it is dead"
    dead.process.wait()
    clock.advance(PAUSE_MS)
    spare.keep()
    assert spare._waiting is dead
    assert spare.take() is None


def test_it_ends_with_the_instance(spare: Spare, clock: ManualClock) -> None:
    spare.take()
    process = ready(spare, clock).process
    spare.end()
    assert process.returncode == -signal.SIGKILL
    clock.advance(PAUSE_MS)
    spare.keep()
    assert spare._waiting is None


def test_a_launched_process_is_of_a_process_group_of_its_own() -> None:
    launched = launch(COMMAND)
    assert os.getpgid(launched.process.pid) == launched.process.pid
    launched.end()
