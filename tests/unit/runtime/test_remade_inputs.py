"""Topics that are deleted and made again between two looks: the new ones are read whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamlet.app import App
from streamlet.coordinator.messages import OffsetFetch
from streamlet.kafka.ports import OutgoingRecords
from streamlet.testing.memory_ports import MemorySink
from streamlet.types import TopicPartition
from tests.unit.runtime.members import PARTITIONS, Group, wait_for
from tests.unit.runtime.test_task_manager import running
from tests.unit.runtime.test_unequal_inputs import MORE, delete, group_over, merging

#: How topics are read: by a pattern that matches them, or by their names.
READ = {"pattern": re.compile(f"words|{MORE}"), "names": ["words", MORE]}
ALONE = {"pattern": re.compile(MORE), "names": [MORE]}


def fill(group: Group, count: int, kind: str) -> None:
    """Write so many records with keys of their own to each partition."""
    for partition in range(group.log.infos()[MORE].partitions):
        keys = [f"{kind}-{partition}-{at}".encode() for at in range(count)]
        group.log.append(TopicPartition(MORE, partition), keys, [b"x"] * count)


def counted(group: Group, kind: str) -> dict[str, int]:
    """The last counts of keys of a kind."""
    return {key: found[-1] for key, found in group.counts().items() if key.startswith(kind)}


@contextmanager
def unseen(group: Group) -> Iterator[None]:
    """No member looks at topics or positions as long as the block lasts."""
    with group.cluster._lock, group.log._lock:
        yield


def make_again(group: Group, count: int, *, partitions: int = 2) -> None:
    """Delete the topic with its positions and make it with so many records, before any look."""
    with unseen(group):
        delete(group, MORE)
        group.log.create(MORE, partitions)
        fill(group, count, "new")


def committed(group: Group) -> list[int]:
    """The positions in the topic that the group has."""
    wanted = tuple(TopicPartition(MORE, partition) for partition in range(2))
    found = group.cluster.coordinator.offsets.fetch(
        OffsetFetch("app", wanted, require_stable=False)
    )
    return [found.committed[tp].offset for tp in wanted]


@pytest.mark.parametrize(
    ("reset", "alone", "read", "count"),
    [
        ("earliest", False, "pattern", 9),
        ("earliest", True, "pattern", 5),
        ("earliest", True, "names", 3),
        ("latest", True, "pattern", 3),
        ("latest", True, "names", 9),
        ("latest", False, "names", 5),
    ],
)
def test_a_topic_that_is_made_again_is_read_from_its_first_record(
    tmp_path: Path, reset: str, alone: bool, read: str, count: int
) -> None:
    topics = (ALONE if alone else READ)[read]
    group = group_over(
        tmp_path, merging(topics), metadata_max_age_ms="100", auto_offset_reset=reset
    )
    group.log.create(MORE, 2)
    with running(group):
        member = group.member("a")
        tasks = 2 if alone else PARTITIONS
        wait_for(lambda: len(member.running) == tasks, "all run")
        fill(group, 5, "old")
        wait_for(lambda: len(counted(group, "old")) == 10, "the old topic is counted")
        wait_for(lambda: committed(group) == [5, 5], "its positions are committed")
        make_again(group, count)
        wait_for(
            lambda: member.failed or len(counted(group, "new")) == 2 * count,
            "the new topic is read whole",
        )
        fill(group, 2, "later")
        wait_for(lambda: member.failed or len(counted(group, "later")) == 4, "and read on")
        assert member.failed is None
        assert set(counted(group, "old").values()) == {1}, "what was counted before stays"
        group.end()


def test_records_of_the_new_topic_pass_an_exact_repartition_topic(tmp_path: Path) -> None:
    """Those that were read at old positions count again: they come of another topic."""
    app = App("app")
    stream = app.stream(MORE, key=str, value=str)
    stream.group_by(lambda key, value: key, key=str).count(store="counts").to_stream().to("counts")
    group = group_over(tmp_path, app.topology(), metadata_max_age_ms="100")
    group.log.create(MORE, 2)
    with running(group):
        member = group.member("a")
        fill(group, 5, "old")
        wait_for(lambda: len(counted(group, "old")) == 10, "the old topic is counted")
        wait_for(lambda: committed(group) == [5, 5], "its positions are committed")
        make_again(group, 9)
        wait_for(lambda: member.failed or len(counted(group, "new")) == 18, "all are counted")
        assert member.failed is None
        assert set(counted(group, "old").values()) == {1}, "what was counted before stays"
        group.end()


@pytest.mark.parametrize("known", [False, True], ids=["positions deleted", "positions kept"])
def test_a_topic_that_comes_back_later_is_read_whole(tmp_path: Path, known: bool) -> None:
    """Its deletion was seen, and its task, whose only input it was, had ended."""
    group = group_over(tmp_path, merging(ALONE["pattern"]), metadata_max_age_ms="100")
    group.log.create(MORE, 2)
    with running(group):
        member = group.member("a")
        fill(group, 5, "old")
        wait_for(lambda: committed(group) == [5, 5], "its positions are committed")
        kept = dict(group.cluster.coordinator.offsets._committed["app"])
        delete(group, MORE)
        wait_for(lambda: not member.running, "its tasks have ended")
        group.log.create(MORE, 2)
        if known:
            group.cluster.coordinator.offsets._committed["app"].update(kept)
        fill(group, 9, "new")
        wait_for(
            lambda: member.failed or len(counted(group, "new")) == 18, "the new topic is read whole"
        )
        assert member.failed is None
        assert set(counted(group, "old").values()) == {1}, "what was counted before stays"
        group.end()


def test_a_position_of_a_topic_that_is_gone_is_not_gone_on_at_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = group_over(tmp_path, merging(ALONE["names"]))
    group.log.create(MORE, 2)
    with running(group):
        group.member("a")
        fill(group, 5, "old")
        wait_for(lambda: committed(group) == [5, 5], "its positions are committed")
        group.members[0].told.set()
        group.members[0].thread.join()
        group.log.delete(MORE)
        group.log.create(MORE, 2)
        fill(group, 9, "new")
        group.member("a")
        wait_for(lambda: len(counted(group, "new")) == 18, "the new topic is read whole")
        group.end()
    assert "more-0 was deleted and made again since position 5 was committed" in caplog.text


def test_a_table_has_no_row_of_the_topic_before(tmp_path: Path) -> None:
    app = App("app")
    table = app.table(MORE, key=str, value=str)
    words = app.stream("words", key=str, value=str)
    words.left_join(table, lambda word, row: row or "none", value=str).to("joined")
    group = group_over(tmp_path, app.topology(), metadata_max_age_ms="100")
    group.log.create("joined", PARTITIONS)
    group.log.create(MORE, PARTITIONS)

    def joined() -> list[tuple[bytes | None, bytes | None]]:
        places = [TopicPartition("joined", partition) for partition in range(PARTITIONS)]
        return [(one.key, one.value) for tp in places for one in group.log.records(tp)]

    def rows(value: bytes, keys: list[bytes]) -> None:
        MemorySink(group.log).send(OutgoingRecords(MORE, keys, [value] * len(keys)))

    with running(group):
        rows(b"old", [b"k1", b"k2"])
        member = group.member("a")
        group.produce(1, keys=4)
        wait_for(lambda: (b"k1", b"old") in joined() and (b"k3", b"none") in joined(), "joined")
        with unseen(group):
            delete(group, MORE)
            group.log.create(MORE, PARTITIONS)
            rows(b"new", [b"k2", b"k3"])

        def again() -> bool:
            """More words, once all that are there are joined: more of them would only delay it."""
            before = len(joined())
            group.produce(1, keys=4)
            wait_for(lambda: member.failed or len(joined()) >= before + 4, "all words are joined")
            return {(b"k1", b"none"), (b"k2", b"new"), (b"k3", b"new")} <= {*joined()}

        wait_for(lambda: member.failed or again(), "joined with the new rows only")
        assert member.failed is None
        group.end()
