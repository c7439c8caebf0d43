"""Keys that do not lie where their partitioner puts them are named once, where it matters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

import streamlet as sl
from streamlet.kafka.placements import place
from streamlet.kafka.ports import PartitionBatch
from streamlet.runtime.placement import SAMPLE, PlacementCheck
from streamlet.tasks.active import ActiveTask
from streamlet.topology.graph import Topology

COUNT = 4
CRC32, MURMUR2 = "consistent_random", "murmur2_random"


def joining(**how: Any) -> Topology:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=str, **how)
    clicks = app.stream("clicks", key=str, value=str).select_key(lambda k, v: v)
    clicks.join(rows, lambda v, r: r, value=str).to("out")
    return app.topology()


def of_users() -> Topology:
    """Two topics of the user's, which nothing of ours is beside."""
    app = sl.App("a")
    rows = app.table("rows", key=str, value=str)
    app.stream("clicks", key=str, value=str).join(rows, lambda v, r: r, value=str).to("out")
    return app.topology()


def by_foreign_key() -> Topology:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=str)
    clicks = app.table("clicks", key=str, value=str)
    clicks.join(rows, lambda v, r: r, foreign_key=lambda v: v, value=str).to_stream().to("out")
    return app.topology()


def counting(by_key: bool = True) -> Topology:
    app = sl.App("a")
    clicks = app.stream("clicks", key=str, value=str)
    grouped = clicks.group_by_key() if by_key else clicks.group_by(lambda k, v: v, key=str)
    grouped.count(store="n").to_stream().to("out")
    return app.topology()


@attrs.define
class Worker:
    """Reads topics that are written by a partitioner, or by none."""

    topology: Topology
    filled: tuple[str, ...] = ()
    counted: dict[str, int] = attrs.field(factory=dict)
    check: PlacementCheck = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.check = PlacementCheck(
            self.topology,
            partitions=lambda topic: COUNT,
            filled=lambda: self.filled,
            count=lambda topic, n: self.counted.update({topic: self.counted.get(topic, 0) + n}),
        )

    def read(self, topic: str, by: str, count: int = 200, keys: Any = b"k%d") -> set[str]:
        """Records as a producer has put them; what its tasks say then."""
        part = next(one for one in self.topology.subtopologies if topic in one.input_topics)
        said = set()
        for partition in range(COUNT):
            found = [key for n in range(count) if place(by)(key := keys % n, COUNT) == partition]
            active: Any = SimpleNamespace(subtopology=part, misplaced="")
            size = len(found)
            columns = range(size), list(found), [b"v"] * size, [0] * size
            self.check.look(cast(ActiveTask, active), PartitionBatch(topic, partition, *columns))
            said.add(active.misplaced)
        return said - {""}


def test_a_topic_beside_one_of_ours_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(joining())
    (said,) = worker.read("rows", CRC32)
    assert caplog.messages == [said]
    assert said.startswith("rows: ")
    assert 'Give its producer "partitioner": "murmur2_random"' in said
    assert 'read it with partitioner="consistent_random", by which it is written' in said
    assert " %) are not in the partition where murmur2_random puts" in said
    worker.read("rows", CRC32)
    assert len(caplog.messages) == 1
    assert worker.counted["rows"] > 100
    worker.read("rows", CRC32, count=COUNT * SAMPLE * 2)
    assert worker.read("rows", MURMUR2) == {said}, "tasks that come back are still named"


@pytest.mark.parametrize("key", [sl.debezium(int, dict).key, dict], ids=["Debezium", "JSON"])
def test_keys_in_another_form_than_ours_are_named(
    key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Their bytes lie where they should; those that streamlet writes for them lie elsewhere."""
    app = sl.App("a")
    rows = app.table("rows", key=key, value=str)
    clicks = app.stream("clicks", key=str, value=str).select_key(lambda k, v: v, key=key)
    clicks.join(rows, lambda v, r: r, value=str).to("out")
    worker = Worker(app.topology())
    (said,) = worker.read("rows", MURMUR2, keys=b'{"id": %d}')
    assert caplog.messages == [said]
    assert "murmur2_random puts their keys as streamlet writes them, b'" in said
    assert said.endswith("through repartition() and to_table() before the join")


@pytest.mark.parametrize(
    ("topology", "topic", "by"),
    [
        (joining(), "rows", MURMUR2),
        (joining(partitioner="crc32"), "rows", CRC32),
        (joining(), "clicks", CRC32),
        (by_foreign_key(), "clicks", CRC32),
        (counting(), "clicks", CRC32),
        (counting(by_key=False), "clicks", CRC32),
    ],
    ids=["right", "declared", "re-keyed", "left of foreign keys", "alone", "regrouped"],
)
def test_nothing_is_said_where_it_is_right_or_does_not_matter(
    topology: Topology, topic: str, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(topology)
    assert worker.read(topic, by) == set()
    assert (caplog.messages, worker.counted) == ([], {})


def test_the_right_table_of_a_join_by_foreign_keys_is_named() -> None:
    (said,) = Worker(by_foreign_key()).read("rows", CRC32)
    assert said.startswith("rows: ")


def test_what_is_declared_and_not_so_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = Worker(joining(partitioner="crc32")).read("rows", MURMUR2)
    assert '"partitioner": "consistent_random"' in said
    assert 'partitioner="murmur2_random", by which it is written' in said


def test_two_topics_of_users_may_lie_by_a_partitioner_of_their_own() -> None:
    """Only where one lies as is said and the other does not, records miss each other."""
    worker = Worker(of_users())
    assert worker.read("rows", CRC32) == worker.read("clicks", CRC32) == set()
    mixed = Worker(of_users())
    assert mixed.read("clicks", MURMUR2) == set()
    (said,) = mixed.read("rows", CRC32)
    assert said.startswith("rows: ")


def test_a_topic_that_files_stood_for_is_looked_at() -> None:
    (said,) = Worker(counting(), filled=("clicks",)).read("clicks", CRC32, count=40)
    assert said.startswith("clicks: ")
    assert Worker(counting(by_key=False), filled=("clicks",)).read("clicks", CRC32) == set()


def test_only_the_first_records_are_looked_at() -> None:
    worker = Worker(joining())
    assert worker.read("rows", MURMUR2, count=COUNT * SAMPLE * 2) == set()
    assert worker.read("rows", CRC32) == set()
    assert worker.counted == {}


def test_records_without_a_key_lie_anywhere() -> None:
    worker = Worker(joining(partitioner="crc32"))
    part = worker.topology.subtopology(0)
    active: Any = SimpleNamespace(subtopology=part, misplaced="")
    keys: list[bytes | None] = [None, b""] * 20
    batch = PartitionBatch("rows", 3, range(40), keys, [b"v"] * 40, [0] * 40)
    worker.check.look(cast(ActiveTask, active), batch)
    assert (active.misplaced, worker.counted) == ("", {})
