"""Workers that find the record behind an entry that has no bytes, and go on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.kafka.ports import OutgoingRecords
from streamlet.processing.policy import ErrorPolicy
from streamlet.testing.memory_ports import MemorySink
from streamlet.topology.graph import Topology
from streamlet.types import TopicPartition
from tests.unit.runtime.members import Group, wait_for

BAD = b"bad"
LETTERS = TopicPartition("letters", 0)


def latest(kind: object) -> Topology:
    """The last value of each word; a bad one has no bytes."""
    app = sl.App("app")
    words = app.stream("words", key=str, value=str)
    texts = words.map_values(lambda text: "\ud83d" if text == "bad" else text, value=str)
    if kind == "windows":
        grouped = texts.group_by_key().windowed_by(sl.unlimited())
        grouped.reduce(lambda old, new: new, store="last")
    else:
        texts.to_table(store="last")
    texts.map_values(len, value=int).to("counts")
    return app.topology()


@pytest.mark.parametrize("kind", ["table", "windows"])
def test_the_record_is_found_behind_the_last_commit(tmp_path: Path, kind: str) -> None:
    group = Group(tmp_path, latest(kind))
    group.policy = ErrorPolicy.of(("dead_letter", "letters"))
    group.log.create("letters", 1)
    sink = MemorySink(group.log)
    with group.cluster:
        member = group.member("one")
        sink.send(OutgoingRecords("words", [b"a", b"b", b"c"], [b"1", b"2", b"3"]))
        wait_for(lambda: group.put_out == 3, "the first words")
        sink.send(OutgoingRecords("words", [b"a", b"bad", b"b"], [b"4", BAD, b"5"]))
        wait_for(lambda: group.log.end(LETTERS) == 1, "a dead letter")
        sink.send(OutgoingRecords("words", [b"bad", b"bad"], [b"6", BAD]))
        wait_for(lambda: group.log.end(LETTERS) == 2, "another, at once")
        wait_for(lambda: len(member.running) == 4, "all run")
        group.end()
        assert member.failed is None
    assert member.meters.lost == 1, "later ones are found when they are put"
    for letter in group.log.records(LETTERS):
        reason = dict(letter.headers or ())
        assert reason["streamlet.topic"] == b"words"
        assert b"store last, key" in (reason["streamlet.message"] or b"")


def test_the_policy_fail_names_the_record(tmp_path: Path) -> None:
    group = Group(tmp_path, latest("table"))
    with group.cluster:
        member = group.member("one")
        MemorySink(group.log).send(OutgoingRecords("words", [b"a", b"bad"], [b"1", BAD]))
        member.thread.join(300)
        group.end()
    assert isinstance(member.failed, ProcessingError), member.failed
    assert (member.failed.topic, member.failed.offset) == ("words", 0)
    assert "store last, key 'bad': str: cannot encode" in str(member.failed.__cause__)
