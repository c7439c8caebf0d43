"""Outputs that wait because the producer is to be given one of them again."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.runtime.record_loop import RecordLoop
from streamlet.tasks.active import ActiveTask, Unsent
from streamlet.types import TaskId
from tests.unit.processing.test_record_collector import LARGE, SmallSink, output


@attrs.define
class Sender:
    """A running task, as far as sending looks at it."""

    task: TaskId = attrs.field(factory=lambda: TaskId(0, 0))
    processor: object = attrs.field(factory=object)
    edge_writer: None = None
    held: None = None
    unsent: Unsent | None = None
    wrote: bool = False


class Around:
    """What is around the loop: notes tasks that are paused, and outputs that were sent."""

    def __init__(self) -> None:
        self.paused: list[Sender] = []
        self.shown: list[Output] = []

    def pause(self, active: Sender) -> None:
        self.paused.append(active)

    def produced(self, outputs: list[Output]) -> None:
        self.shown += outputs


class World:
    """A loop of one task, with a producer that refuses large records."""

    def __init__(self, retry: sl.Retry) -> None:
        self.sink, self.around, self.clock = SmallSink(), Around(), ManualClock()
        sending = RecordCollector(self.sink, ErrorPolicy.of(retry), "a")
        given: dict[str, Any] = dict.fromkeys(
            ["actions", "commit", "out_of_range", "meters", "counters", "questions", "undecided"]
        )
        around = cast(Any, self.around)
        self.loop = RecordLoop(
            *cast(Any, (None, None)),
            self.clock,
            **given,
            **dict.fromkeys(["fail", "restart"], around),
            registry=around,
            observer=around,
            sending=sending,
        )
        self.sender = Sender()
        self.active = cast(ActiveTask, self.sender)

    def taken(self) -> list[bytes | None]:
        """Keys of what the producer took."""
        return [key for _, key, _, _ in self.sink.taken]


FIRST = output((b"a", b"1"), (b"b", LARGE), (b"c", b"3"))
SECOND, THIRD = output((b"d", b"4")), output((b"e", b"5"))


def test_nothing_overtakes_a_record_that_waits_for_its_next_try() -> None:
    world = World(sl.Retry(3, backoff=100, then="skip"))
    world.loop._send(world.active, [FIRST, SECOND])
    world.loop._send(world.active, [THIRD])
    assert world.taken() == [b"a"]
    assert world.around.paused == [world.sender], "it reads no more until then"
    assert world.around.shown == [], "no output is shown before all is sent"

    for pause_ms in (100, 200):
        world.clock.advance(pause_ms - 1)
        assert world.loop._waits_for_retry(world.active, world.clock.now_ms())
        world.clock.advance(1)
        assert not world.loop._waits_for_retry(world.active, world.clock.now_ms())
        assert world.taken() == [b"a"]
        world.loop._send_rest(world.active)

    assert world.taken() == [b"a", b"c", b"d", b"e"]
    assert world.around.shown == [FIRST, SECOND, THIRD]
    assert world.sender.unsent is None


def test_each_record_of_what_waits_has_tries_of_its_own() -> None:
    world = World(sl.Retry(2, backoff=100, then="skip"))
    world.loop._send(world.active, [output((b"a", LARGE), (b"b", LARGE)), SECOND])
    for keys in ([], [b"d"]):
        world.clock.advance(100)
        world.loop._send_rest(world.active)
        assert world.taken() == keys


@pytest.mark.parametrize("then", ["skip", ("dead_letter", "letters")])
def test_a_commit_of_a_stopped_task_sends_all_that_waits(then: Any) -> None:
    world = World(sl.Retry(2, backoff=0, then=then))
    world.loop._send(world.active, [FIRST, SECOND])
    world.loop._send_rest_now(world.active)
    assert [key for key in world.taken() if key != b"b"] == [b"a", b"c", b"d"]
    assert world.sender.unsent is None
