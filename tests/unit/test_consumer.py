"""The plain consumer, over a log in memory and a fake coordinator in real time."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

import streamlet as sl
from streamlet.clock import SystemClock
from streamlet.consumer import Consumer, ConsumerMember, ConsumerRecord, Parts, sticky
from streamlet.coordinator.messages import OffsetFetch
from streamlet.errors import (
    BrokerError,
    ConfigError,
    FatalGroupError,
    MissingTopicError,
    NotFoundError,
    PartitionsLostError,
    StreamletError,
    TimedOutError,
)
from streamlet.rebalance.values import NeedMetadata
from streamlet.testing.coordinator import FakeCoordinator
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.types import TopicPartition
from tests.coordinator_transport import FakeCluster

CLOCK = SystemClock()
WAIT_MS = 300_000
FAST = {"heartbeat.interval.ms": 20, "rebalance.protocol": "cooperative"}
EAGER = {"heartbeat.interval.ms": 20, "rebalance.protocol": "eager"}


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


class Scene:
    """A topic with four partitions, and consumers of it that are polled in turn."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.log = MemoryLog(CLOCK)
        self.log.create("t", 4)
        self.consumers: list[Consumer] = []
        self.read: dict[Consumer, list[ConsumerRecord]] = {}

    def write(self, partition: int, *values: str) -> None:
        self.log.append(tp(partition), [None] * len(values), [v.encode() for v in values])

    def consumer(self, config: Mapping[str, Any] = FAST, **options: Any) -> Consumer:
        source = MemorySource(self.log, headers=True)
        parts = Parts(source, MemoryAdmin(self.log), self.cluster.transport(), CLOCK)
        found = Consumer("t", "g", config=config, parts=parts, **options)
        self.consumers.append(found)
        self.read[found] = []
        return found

    def poll_until(self, condition: Callable[[], bool], *which: Consumer) -> None:
        deadline = CLOCK.now_ms() + WAIT_MS
        while not condition():
            assert CLOCK.now_ms() < deadline, {c: c.assignment for c in self.consumers}
            for consumer in which or self.consumers:
                self.read[consumer] += consumer.poll(timeout=0.005)

    def shared(self, *loads: int) -> Callable[[], bool]:
        """All four partitions are read, by loads like these."""
        return lambda: (
            sorted(len(c.assignment) for c in self.consumers) == sorted(loads)
            and len({p for c in self.consumers for p in c.assignment}) == 4
        )

    def values(self, consumer: Consumer) -> list[str]:
        return [(r.value or b"").decode() for r in self.read[consumer]]

    def committed(self, partition: int) -> int:
        request = OffsetFetch("g", (tp(partition),))
        return self.cluster.coordinator.offsets.fetch(request).committed[tp(partition)].offset


class Calls:
    """Notes what a consumer tells."""

    def __init__(self) -> None:
        self.all: list[tuple[str, list[TopicPartition]]] = []

    def options(self) -> dict[str, Callable[[list[TopicPartition]], None]]:
        names = ("on_assigned", "on_revoked", "on_lost")
        return {name: lambda found, name=name: self.all.append((name, found)) for name in names}

    def of(self, name: str) -> list[list[TopicPartition]]:
        return [found for kind, found in self.all if kind == name]


@pytest.fixture
def scene() -> Iterator[Scene]:
    coordinator = FakeCoordinator(topics={"t": 6})
    with FakeCluster(coordinator, CLOCK) as cluster:
        scene = Scene(cluster)
        yield scene
        for consumer in scene.consumers:
            consumer.close(timeout=1)


def test_it_is_part_of_the_public_interface() -> None:
    assert sl.Consumer is Consumer


def test_a_record_has_all_that_was_written(scene: Scene) -> None:
    scene.log.append(tp(2), [b"k"], [b"v"], [17], [[("h", b"1"), ("h", None)]])
    consumer = scene.consumer()
    scene.poll_until(lambda: bool(scene.read[consumer]))
    assert scene.read[consumer] == [
        ConsumerRecord("t", 2, 0, b"k", b"v", 17, [("h", b"1"), ("h", None)])
    ]


def test_iterating_gives_the_records_of_each_partition_in_order(scene: Scene) -> None:
    scene.write(0, *"abc")
    scene.write(1, *"de")
    with scene.consumer() as consumer:
        records = [next(consumer) for _ in range(5)]
    assert [r.value for r in records if r.partition == 0] == [b"a", b"b", b"c"]
    assert [r.value for r in records if r.partition == 1] == [b"d", b"e"]
    assert list(consumer) == []


def test_poll_gives_no_more_than_asked_for_and_nothing_after_its_time(scene: Scene) -> None:
    scene.write(0, *"abc")
    consumer = scene.consumer()
    scene.poll_until(lambda: consumer.assignment != [])
    consumer.seek(("t", 0), 0)
    assert len(consumer.poll(2)) == 2
    assert len(consumer.poll(2)) == 1
    assert consumer.poll(2, timeout=0.01) == []


def test_whoever_comes_next_goes_on_behind_what_was_handed_out(scene: Scene) -> None:
    scene.write(0, *"abc")
    with scene.consumer() as first:
        assert next(first).value == b"a"
        assert next(first).value == b"b"
    scene.consumers.clear()
    second = scene.consumer()
    scene.poll_until(lambda: bool(scene.read[second]))
    assert scene.values(second) == ["c"]


def test_a_record_that_could_not_be_processed_is_read_again(scene: Scene) -> None:
    """The block ends with an error: the record in work does not count, those before it do."""
    scene.write(0, *"abc")

    def process() -> None:
        with scene.consumer() as consumer:
            for record in consumer:
                if record.value == b"b":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        process()
    assert scene.committed(0) == 1


def test_positions_are_committed_in_passing(scene: Scene) -> None:
    scene.write(0, *"abc")
    scene.consumer({**FAST, "commit.interval.ms": 20})
    scene.poll_until(lambda: scene.committed(0) == 3)


def test_without_auto_commit_only_commit_commits(scene: Scene) -> None:
    scene.write(0, *"abc")
    with scene.consumer({**FAST, "commit.interval.ms": 0}, auto_commit=False) as consumer:
        scene.poll_until(lambda: len(scene.read[consumer]) == 3)
        assert scene.committed(0) == -1
        consumer.commit({("t", 0): 2})
        assert scene.committed(0) == 2
        consumer.commit()
        assert scene.committed(0) == 3
        consumer.commit({tp(0): 1}, sync=False)
    assert scene.committed(0) == 1


def test_a_newcomer_gets_its_share_and_what_stays_is_read_on(scene: Scene) -> None:
    """Cooperative: of four partitions two are revoked, the others never stop."""
    calls = Calls()
    old = scene.consumer(**calls.options())
    scene.poll_until(scene.shared(4))
    new = scene.consumer()
    scene.poll_until(scene.shared(2, 2))
    (revoked,) = calls.of("on_revoked")
    assert revoked == new.assignment
    assert [len(found) for found in calls.of("on_assigned")] == [4]
    for n in range(4):
        scene.write(n, f"{n}")
    scene.poll_until(lambda: sum(map(len, scene.read.values())) == 4)
    assert len(scene.read[old]) == len(scene.read[new]) == 2


def test_eager_everything_is_revoked_and_assigned_again(scene: Scene) -> None:
    calls = Calls()
    scene.consumer(EAGER, **calls.options())
    scene.poll_until(scene.shared(4))
    scene.consumer(EAGER)
    scene.poll_until(scene.shared(2, 2))
    assert [len(found) for found in calls.of("on_revoked")] == [4]
    assert [len(found) for found in calls.of("on_assigned")] == [4, 2]


@pytest.mark.parametrize("config", [EAGER, FAST], ids=["eager", "cooperative"])
def test_what_is_given_up_is_committed_first_and_may_be_in_the_callback(
    scene: Scene, config: dict[str, Any]
) -> None:
    """Nothing is read twice when a member joins or leaves."""
    for n in range(4):
        scene.write(n, "a", "b")
    scene.consumer(config)
    second = scene.consumer(
        config, auto_commit=False, on_revoked=lambda partitions: second.commit()
    )
    scene.poll_until(scene.shared(2, 2))
    scene.poll_until(lambda: sum(map(len, scene.read.values())) >= 8)
    third = scene.consumer(config)
    scene.poll_until(scene.shared(1, 1, 2))
    third.close()
    scene.consumers.remove(third)
    scene.poll_until(scene.shared(2, 2))
    values = [(r.partition, r.value) for read in scene.read.values() for r in read]
    assert len(values) == len(set(values)) == 8


def test_seek_goes_back_also_behind_what_was_read_ahead(scene: Scene) -> None:
    scene.write(0, *"abcd")
    consumer = scene.consumer()
    assert [next(consumer).value for _ in range(3)] == [b"a", b"b", b"c"]
    consumer.seek(("t", 0), 1)
    assert consumer.position(("t", 0)) == 1
    assert [next(consumer).value for _ in range(3)] == [b"b", b"c", b"d"]


def test_a_start_may_be_chosen_when_partitions_are_assigned(scene: Scene) -> None:
    scene.write(0, *"abc")
    consumer = scene.consumer(on_assigned=lambda partitions: consumer.seek(tp(0), 2))
    assert next(consumer).value == b"c"


def test_a_paused_partition_is_silent_until_it_is_resumed(scene: Scene) -> None:
    scene.write(0, *"abc")
    scene.write(1, *"xyz")
    consumer = scene.consumer()
    first = next(consumer)
    paused = ("t", first.partition)
    consumer.pause([paused])
    assert consumer.paused == [paused]
    assert {next(consumer).partition for _ in range(3)} == {1 - first.partition}
    consumer.seek(paused, 2)
    assert consumer.poll(timeout=0.02) == []
    consumer.resume([paused])
    assert next(consumer).offset == 2
    assert consumer.paused == []


def test_what_is_not_assigned_cannot_be_moved_paused_or_committed(scene: Scene) -> None:
    consumer = scene.consumer()
    scene.poll_until(scene.shared(4))
    for act in (
        lambda: consumer.seek(("t", 9), 0),
        lambda: consumer.pause([("t", 9)]),
        lambda: consumer.resume([("u", 0)]),
        lambda: consumer.position(("t", 9)),
        lambda: consumer.commit({("t", 9): 1}),
    ):
        with pytest.raises(PartitionsLostError, match="is not assigned to this consumer"):
            act()
    with pytest.raises(ValueError, match="0 or more"):
        consumer.seek(("t", 0), -1)


@pytest.mark.parametrize("config", [EAGER, FAST], ids=["eager", "cooperative"])
def test_a_consumer_that_does_not_poll_loses_its_partitions_and_hears_of_it(
    scene: Scene, config: dict[str, Any]
) -> None:
    """A zombie's commit is refused, and what it had goes to the other."""
    calls = Calls()
    scene.write(0, "a")
    zombie = scene.consumer({**config, "max.poll.interval.ms": 300}, **calls.options())
    scene.poll_until(lambda: bool(scene.read[zombie]))
    other = scene.consumer(config)
    scene.poll_until(lambda: len(other.assignment) == 4, other)
    with pytest.raises(PartitionsLostError, match="nothing was committed"):
        zombie.commit()
    assert not calls.of("on_lost")
    had = zombie.assignment
    scene.poll_until(lambda: bool(calls.of("on_lost")), zombie)
    assert calls.of("on_lost") == [had]
    scene.poll_until(scene.shared(2, 2))


def test_an_eager_consumer_that_was_overtaken_commits_nothing_more(scene: Scene) -> None:
    """It had to join with its partitions in hand, because a commit's outcome was unknown."""
    calls = Calls()
    scene.write(0, "a")
    consumer = scene.consumer(EAGER, **calls.options())
    scene.poll_until(lambda: bool(scene.read[consumer]))
    consumer._protocol.subscribe(NeedMetadata(9, consumer.member_id, consumer.generation, 9), {})
    with pytest.raises(PartitionsLostError, match="nothing was committed"):
        consumer.commit({("t", 0): 1})
    assert consumer.poll(timeout=0) == []
    assert [len(found) for found in calls.of("on_lost")] == [4]
    assert scene.committed(0) != 1


def test_what_iterating_read_ahead_comes_first_in_a_poll(scene: Scene) -> None:
    scene.write(0, *"abcd")
    consumer = scene.consumer()
    assert next(consumer).value == b"a"
    assert [r.value for r in consumer.poll(2)] == [b"b", b"c"]
    assert [r.value for r in consumer.poll()] == [b"d"]


def test_a_failed_commit_that_nobody_waits_for_is_logged(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = scene.consumer(auto_commit=False)
    scene.poll_until(scene.shared(4))
    scene.cluster.coordinator.offsets._topics = {"t": 1}
    consumer.commit({("t", 0): 1, ("t", 1): 1}, sync=False)
    scene.poll_until(lambda: "has kept no position of t-1: there is no such" in caplog.text)


def test_a_custom_assignor_has_the_last_word_and_knows_the_members(scene: Scene) -> None:
    seen: list[ConsumerMember] = []

    def by_zone(
        members: Sequence[ConsumerMember], partitions: Sequence[TopicPartition]
    ) -> dict[ConsumerMember, list[TopicPartition]]:
        seen[:] = members
        north = next((m for m in members if m.tags.get("zone") == "north"), members[0])
        rest = [m for m in members if m is not north]
        return (
            {north: list(partitions[:3]), rest[0]: [partitions[3]]}
            if rest
            else {north: list(partitions)}
        )

    scene.consumer({**FAST, "instance.tags": {"zone": "south"}}, assignor=by_zone)
    scene.poll_until(scene.shared(4))
    north = scene.consumer({**FAST, "instance.tags": {"zone": "north"}}, assignor=by_zone)
    scene.poll_until(scene.shared(3, 1))
    assert north.assignment == [tp(0), tp(1), tp(2)]
    assert {m.tags["zone"] for m in seen} == {"north", "south"}


def test_an_assignor_that_answers_nonsense_ends_the_consumer_with_its_reason(
    scene: Scene,
) -> None:
    consumer = scene.consumer(assignor=lambda members, partitions: {"nobody": partitions})
    with pytest.raises(FatalGroupError, match="nobody is no member; t-0 is given to no member"):
        scene.poll_until(lambda: False)
    with pytest.raises(FatalGroupError, match="nobody is no member"):
        consumer.poll()


def test_an_assignor_that_is_not_ready_is_asked_again(scene: Scene) -> None:
    asked: list[int] = []

    def late(
        members: Sequence[ConsumerMember], partitions: Sequence[TopicPartition]
    ) -> Mapping[str, list[TopicPartition]]:
        asked.append(1)
        if len(asked) < 3:
            raise BrokerError("lags are not known yet")
        return sticky(members, partitions)

    scene.consumer(assignor=late)
    scene.poll_until(scene.shared(4))
    assert len(asked) == 3


def test_a_rebalance_can_be_asked_for(scene: Scene) -> None:
    """Because the assignor would decide otherwise by now."""
    consumer = scene.consumer()
    scene.poll_until(scene.shared(4))
    before = consumer.generation
    consumer.rebalance("lags have changed")
    scene.poll_until(lambda: consumer.generation > before)
    assert consumer.member_id


def test_new_partitions_are_noticed_by_the_leader(scene: Scene) -> None:
    consumer = scene.consumer({**FAST, "metadata.max.age.ms": 30})
    scene.poll_until(scene.shared(4))
    scene.log.delete("t")
    scene.log.create("t", 6)
    scene.poll_until(lambda: len(consumer.assignment) == 6)


def test_members_of_both_rebalance_protocols_are_counted(scene: Scene) -> None:
    """``num.incompatible.rebalance``; the eager newcomer gets nothing."""
    old = scene.consumer()
    scene.poll_until(scene.shared(4))
    assert old.metrics()["num.incompatible.rebalance"] == 0
    new = scene.consumer(EAGER)
    scene.poll_until(lambda: new.metrics()["num.incompatible.rebalance"] == 1)
    scene.poll_until(lambda: old.metrics()["num.rebalance"] == 2)
    assert new.metrics()["assigned.partitions"] == 0
    assert old.metrics() == {
        "num.incompatible.rebalance": 1,
        "num.rebalance": 2,
        "assigned.partitions": 4,
    }


def test_latest_begins_behind_what_is_there(scene: Scene) -> None:
    scene.write(0, *"abc")
    consumer = scene.consumer({**FAST, "auto.offset.reset": "latest"})
    scene.poll_until(scene.shared(4))
    assert consumer.position(("t", 0)) == 3
    scene.write(0, "d")
    assert next(consumer).value == b"d"


def test_without_a_place_to_begin_there_is_an_error(scene: Scene) -> None:
    consumer = scene.consumer({**FAST, "auto.offset.reset": "none"})
    with pytest.raises(NotFoundError, match=r"group g has no committed position of t-0, .*is none"):
        consumer.poll(timeout=10)


def test_a_topic_that_does_not_exist_is_named(scene: Scene) -> None:
    scene.log.delete("t")
    with pytest.raises(MissingTopicError, match="no such topic: t"):
        scene.consumer().poll()


def test_a_closed_consumer_says_so(scene: Scene) -> None:
    consumer = scene.consumer()
    consumer.close()
    consumer.close()
    with pytest.raises(StreamletError, match="the consumer is closed"):
        consumer.poll()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topics": [], "group_id": "g"}, "at least one topic and a group"),
        ({"topics": "t", "group_id": ""}, "at least one topic and a group"),
        (
            {"topics": "t", "group_id": "g", "config": {"rebalance.protocol": "lazy"}},
            "rebalance.protocol",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_once(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Consumer(**options)


def test_a_commit_that_is_refused_or_too_late_says_so(scene: Scene) -> None:
    consumer = scene.consumer(auto_commit=False)
    scene.poll_until(scene.shared(4))
    with pytest.raises(TimedOutError, match="within 0 ms"):
        consumer.commit({("t", 0): 1}, timeout=0)
    scene.cluster.coordinator.offsets._topics = {"t": 0}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.commit({("t", 0): 1})


def test_an_error_in_a_callback_reaches_the_caller_and_the_group_goes_on(scene: Scene) -> None:
    """The partitions are given up all the same: others wait for them."""

    def fails(partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    old = scene.consumer(on_revoked=fails)
    scene.poll_until(scene.shared(4))
    new = scene.consumer()
    with pytest.raises(ZeroDivisionError):
        scene.poll_until(lambda: False)
    scene.poll_until(scene.shared(2, 2))
    scene.consumers.remove(new)
    new.close()
    scene.poll_until(lambda: len(old.assignment) == 4)
    with pytest.raises(ZeroDivisionError):
        old.close()
    scene.consumers.remove(old)
    assert not any(t.name == "streamlet-group" for t in threading.enumerate())


@pytest.mark.parametrize("protocols", [[EAGER], [FAST], [EAGER, FAST]], ids=["V0", "V1", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_with_members_that_come_and_go_every_record_is_read_once(
    scene: Scene, protocols: list[dict[str, Any]], seed: int
) -> None:
    """Nobody crashes, so all that is given up was committed before: not even a repetition."""
    chance = random.Random(seed)
    reads: list[ConsumerRecord] = []
    scene.consumer(chance.choice(protocols))
    for number in range(25):
        for partition in range(4):
            scene.write(partition, f"{number}")
        happens = chance.random()
        if happens < 0.3 and len(scene.consumers) < 5:
            scene.consumer(chance.choice(protocols))
        elif happens < 0.5 and len(scene.consumers) > 1:
            leaver = scene.consumers.pop(chance.randrange(len(scene.consumers)))
            leaver.close()
            reads += scene.read.pop(leaver)
        for _ in range(chance.randint(0, 8)):
            for consumer in scene.consumers:
                scene.read[consumer] += consumer.poll(chance.randint(1, 5), timeout=0.005)
    scene.poll_until(lambda: len(reads) + sum(map(len, scene.read.values())) >= 100)
    found = Counter((r.partition, r.value) for read in [reads, *scene.read.values()] for r in read)
    assert found == {(p, b"%d" % n): 1 for p in range(4) for n in range(25)}
