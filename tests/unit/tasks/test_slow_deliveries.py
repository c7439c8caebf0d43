"""Commits whose records are long on their way, as over a slow link: they wait, and drop nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streamlet.errors import StillQueuedError
from streamlet.tasks.commit import DELIVER_MS, SOON_MS
from streamlet.tasks.task_record import Unit, UnitStage
from tests.unit.tasks.owners import TASK, Owner, World, fold


@pytest.mark.parametrize("last", [False, True])
def test_a_commit_waits_for_its_deliveries_and_for_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    world = World(tmp_path, random.Random(1))
    world.log.create("words", 1)
    world.log.create("app-counts-changelog", 1)
    world.produce(40)
    owner = Owner(world)
    list(owner.steps())  # the claim
    owner.work(10)
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
    assert owner.state() == fold(world.inputs, 10)
    owner.die()
