"""Commits that wait: for records that are long on their way, and for brokers that are slow."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamlet.errors import StillQueuedError, UnreachableError
from streamlet.tasks.commit import DELIVER_MS, SOON_MS
from streamlet.tasks.task_record import Unit, UnitStage
from tests.unit.tasks.owners import TASK, Owner, World, fold


class SlowThread(Executor):
    """A thread whose answers the test gives."""

    def __init__(self) -> None:
        self.asked = list[tuple[Callable[[], Any], Future[Any]]]()

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        self.asked.append((partial(call, *args, **named), Future()))
        return self.asked[-1][1]


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    """An owner with a claim that has processed ten records."""
    world = World(tmp_path, random.Random(1))
    world.log.create("words", 1)
    world.log.create("app-counts-changelog", 1)
    world.produce(40)
    owner = Owner(world)
    list(owner.steps())
    owner.work(10)
    return owner


@pytest.mark.parametrize("last", [False, True])
def test_a_commit_waits_for_its_deliveries_and_for_nothing_else(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    deliver, waits = owner.sink.flush, iter([True, True, False])
    waited = list[int]()

    def flush(timeout_ms: int) -> None:
        waited.append(timeout_ms)
        if next(waits):
            raise StillQueuedError("3 records still undelivered")
        deliver(timeout_ms)

    monkeypatch.setattr(owner.sink, "flush", flush)
    port, told = owner.commit_port, list[tuple[bool, bool, bool]]()
    for attempt in range(3):
        if last and not attempt:
            port.begin_last(Unit(7, 1, (TASK,), stage=UnitStage.STOPPED), [owner.active])
        else:
            port.begin([owner.active])
        told.append((port.under_way, port.delivering, port.sent))
        with monkeypatch.context() as patch:
            patch.setattr(Owner, "gated", True)
            assert not port.delivering, "a join holds the commit up, and no outputs"
    assert told == [(True, True, False)] * 2 + [(True, False, True)]
    assert waited == [DELIVER_MS if last else SOON_MS, SOON_MS, SOON_MS]
    monkeypatch.setattr(owner.sink, "flush", deliver)
    list(owner.steps())
    assert owner.state() == fold(owner.world.inputs, 10)
    owner.die()


def test_processing_goes_on_while_a_broker_is_asked_where_changelogs_end(owner: Owner) -> None:
    """What is put out meanwhile is sent; a broker that does not answer is asked again."""
    port, thread = owner.commit_port, SlowThread()
    port._delivery._thread, asked = thread, thread.asked
    for _ in range(2):
        port.begin([owner.active])
        assert (port.under_way, port.delivering, port.sent) == (True, False, False)
        owner.work(5)
    ((_, answer),) = asked
    answer.set_exception(UnreachableError("away"))
    with pytest.raises(UnreachableError):
        port.begin([owner.active])
    port.begin([owner.active])
    (_, (ask, answer)) = asked
    answer.set_result(ask())
    list(owner.steps())
    assert len(asked) == 2
    assert owner.world.committed.offset == 10
    assert owner.state() == fold(owner.world.inputs, 20)
    owner.die()
