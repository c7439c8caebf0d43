"""Outputs that wait because the producer is to be given one of them again."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.kafka.queue_bound import FIRST_BYTES, LEAST_BYTES
from streamlet.processing.edges.held_writer import Markers
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.runtime.record_loop import POLL_RECORDS, ROOM_MS, RecordLoop
from streamlet.runtime.task_sending import MOST_KEPT
from streamlet.tasks.active import ActiveTask, Unsent
from streamlet.tasks.meters import Meters
from streamlet.types import TaskId
from tests.unit.processing.test_record_collector import LARGE, SmallSink, output


@attrs.define
class Processor:
    """A task's processor that has nothing under way."""

    def settle(self, *, release: bool) -> list[Output]:
        return []


@attrs.define
class Held:
    """A writer of records that wait for commits: nothing may be written while it is silent."""

    silent: bool = False

    def markers(self, now_ms: int, *, at_once: bool) -> list[Markers]:
        return []


@attrs.define
class Sender:
    """A running task, as far as collector looks at it."""

    task: TaskId = attrs.field(factory=lambda: TaskId(0, 0))
    processor: Processor = attrs.field(factory=Processor)
    edge_writer: None = None
    held: Held | None = None
    unsent: Unsent | None = None
    kept: list[Output] = attrs.field(factory=list)
    wrote: bool = False


@attrs.define
class Commit:
    """A commit, as far as collector looks at it."""

    delivering: bool = False


class Around:
    """What is around the loop: notes tasks that are paused, and outputs that were sent."""

    def __init__(self) -> None:
        self.tasks: dict[TaskId, Sender] = {}
        self.paused: list[Sender] = []
        self.shown: list[Output] = []

    def pause(self, active: Sender) -> None:
        self.paused.append(active)

    def produced(self, outputs: list[Output]) -> None:
        self.shown += outputs


class World:
    """A loop of one task, with a producer that refuses large records."""

    def __init__(self, retry: sl.Retry, most: int = 10) -> None:
        self.sink, self.around, self.clock = SmallSink(most), Around(), ManualClock()
        collector = RecordCollector(self.sink, ErrorPolicy.of(retry), "a")
        given: dict[str, Any] = dict.fromkeys(
            ["actions", "out_of_range", "counters", "questions", "undecided"]
        )
        self.commit = Commit()
        around = cast(Any, self.around)
        self.loop = RecordLoop(
            *cast(Any, (None, None)),
            self.clock,
            **given,
            meters=Meters(self.clock),
            **dict.fromkeys(["fail", "restart"], around),
            commit=cast(Any, self.commit),
            registry=around,
            observer=around,
            collector=collector,
        )
        self.sender = Sender()
        self.active = cast(ActiveTask, self.sender)
        self.around.tasks[self.sender.task] = self.sender

    def taken(self) -> list[bytes | None]:
        """Keys of what the producer took."""
        return [key for _, key, _, _ in self.sink.taken]

    def shown(self) -> list[bytes | None]:
        """Keys of what the observer was shown as written."""
        return [key for one in self.around.shown for key in one.keys]


FIRST = output((b"a", b"1"), (b"b", LARGE), (b"c", b"3"))
SECOND, THIRD = output((b"d", b"4")), output((b"e", b"5"))


def test_nothing_overtakes_a_record_that_waits_for_its_next_try() -> None:
    world = World(sl.Retry(3, backoff=100, then="skip"))
    world.loop.outputs.send(world.active, [FIRST, SECOND])
    world.loop.outputs.send(world.active, [THIRD])
    assert world.taken() == [b"a"]
    assert world.around.paused == [world.sender], "it reads no more until then"
    assert world.around.shown == [], "no output is shown before all is sent"

    for pause_ms in (100, 200):
        world.clock.advance(pause_ms - 1)
        assert world.loop._waits_for_retry(world.active, world.clock.now_ms())
        world.clock.advance(1)
        assert not world.loop._waits_for_retry(world.active, world.clock.now_ms())
        assert world.taken() == [b"a"]
        world.loop.outputs.send_rest(world.active)

    assert world.taken() == [b"a", b"c", b"d", b"e"]
    assert world.shown() == [b"a", b"c", b"d", b"e"], "what the producer refused was not written"
    assert world.sender.unsent is None


@pytest.mark.parametrize("policy", ["skip", ("dead_letter", "letters")])
def test_a_record_that_the_producer_refuses_is_not_shown_as_written(policy: Any) -> None:
    world = World(policy)
    last = output((b"f", b"6"), (b"g", LARGE))
    world.loop.outputs.send(world.active, [FIRST, output((b"e", LARGE)), SECOND, last])
    assert world.shown() == [b"a", b"c", b"d", b"f"]
    assert world.around.shown[2] is SECOND, "what is whole is shown as it is"


def test_each_record_of_what_waits_has_tries_of_its_own() -> None:
    world = World(sl.Retry(2, backoff=100, then="skip"))
    world.loop.outputs.send(world.active, [output((b"a", LARGE), (b"b", LARGE)), SECOND])
    for keys in ([], [b"d"]):
        world.clock.advance(100)
        world.loop.outputs.send_rest(world.active)
        assert world.taken() == keys


@pytest.mark.parametrize("then", ["skip", ("dead_letter", "letters")])
def test_a_commit_of_a_stopped_task_sends_all_that_waits(then: Any) -> None:
    world = World(sl.Retry(2, backoff=0, then=then))
    world.loop.outputs.send(world.active, [FIRST, SECOND])
    world.loop.outputs.send_rest_now(world.active)
    assert [key for key in world.taken() if key != b"b"] == [b"a", b"c", b"d"]
    assert world.sender.unsent is None


def test_outputs_written_while_a_commit_is_delivered_follow_it_in_order() -> None:
    world = World(sl.Retry(2, backoff=100, then="skip"))
    outputs, world.commit.delivering = world.loop.outputs, True
    outputs.send(world.active, [SECOND])
    outputs.send(world.active, [FIRST])
    outputs.send(world.active, [])  # of a batch that nothing comes of
    assert (world.taken(), outputs.kept(), outputs.full) == ([], [], False)
    world.commit.delivering = False
    outputs.send(world.active, [THIRD])
    assert world.taken() == [b"d", b"a"], "what is behind a refused record waits for it"
    world.clock.advance(100)
    outputs.send_rest(world.active)
    assert world.taken() == [b"d", b"a", b"c", b"e"]
    assert world.shown() == [b"d", b"a", b"c", b"e"]


def test_kept_outputs_are_sent_though_nothing_follows_and_their_bytes_are_bounded() -> None:
    world = World(sl.Retry(2, then="skip"), FIRST_BYTES)
    outputs, world.commit.delivering = world.loop.outputs, True
    row = b"v" * (FIRST_BYTES // 4)
    for key in (b"1", b"2", b"3", b"4"):
        assert not outputs.full
        outputs.send(world.active, [output((key, row))])
    assert outputs.full, "nothing more is processed"
    world.commit.delivering = False
    assert not outputs.full
    assert outputs.kept() == [world.sender]
    outputs.send_kept(world.active)
    assert (outputs.kept(), world.sender.kept) == ([], [])
    assert len(world.around.shown) == 4
    world.commit.delivering = outputs.hurried = True
    outputs.send(world.active, [output((b"5", row))])
    assert outputs.full, "another member waits"
    world.loop._most = 100
    world.loop._adapt(0)
    assert world.loop._most == 100, "that nothing waited for room says nothing of what is kept"


@pytest.mark.parametrize(
    ("kept", "waited_ms", "most", "polled"),
    [
        (FIRST_BYTES, 0, 2 * FIRST_BYTES, POLL_RECORDS),
        (FIRST_BYTES // 8, 0, FIRST_BYTES, POLL_RECORDS),
        (FIRST_BYTES // 2, 2 * ROOM_MS, FIRST_BYTES // 4, POLL_RECORDS // 2),
        (FIRST_BYTES, 5_000 * ROOM_MS, LEAST_BYTES, 2),
    ],
)
def test_so_much_is_kept_as_finds_room_when_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, kept: int, waited_ms: int, most: int, polled: int
) -> None:
    world = World(sl.Retry(2, then="skip"), MOST_KEPT)
    outputs, sink = world.loop.outputs, world.sink

    def wait(_: list[Output]) -> None:
        sink.waited_ms += waited_ms

    monkeypatch.setattr(world.around, "produced", wait)
    world.commit.delivering = True
    outputs.send(world.active, [output((b"k", b"v" * kept))])
    world.commit.delivering = False
    world.loop._send_kept(outputs.kept())
    assert world.loop._most == polled
    world.commit.delivering = True
    outputs.send(world.active, [output((b"k", b"v" * (most * 9 // 10)))])
    assert not outputs.full
    outputs.send(world.active, [output((b"k", b"v" * (most // 10)))])
    assert outputs.full


def test_outputs_that_were_kept_wait_for_a_claim_that_the_group_asks_for_by_now() -> None:
    world = World(sl.Retry(2, then="skip"))
    outputs, held = world.loop.outputs, Held()
    world.sender.held, world.commit.delivering = held, True
    outputs.send(world.active, [SECOND])
    held.silent, world.commit.delivering = True, False
    for active in outputs.kept():
        outputs.send_kept(active)
    assert world.taken() == []
    held.silent = False
    world.loop.settle(world.active)
    assert world.taken() == [b"d"]


def test_a_worker_that_stops_keeps_nothing_back() -> None:
    world = World(sl.Retry(2, then="skip"), MOST_KEPT)
    outputs, world.commit.delivering = world.loop.outputs, True
    outputs.send(world.active, [SECOND])
    outputs.keeps = False
    outputs.send(world.active, [THIRD])
    assert world.taken() == [b"d", b"e"]


def test_the_share_of_a_commit_is_taken_behind_what_was_kept() -> None:
    world = World(sl.Retry(2, backoff=0, then="skip"))
    world.commit.delivering = True
    world.loop.outputs.send(world.active, [FIRST, SECOND])
    world.commit.delivering = False
    world.loop.settle(world.active)
    assert world.taken() == [b"a", b"c", b"d"]
    assert (world.sender.kept, world.sender.unsent) == ([], None)
