"""A topic of a pattern that was deleted: a start counts the records of the others on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamlet.app import App
from streamlet.kafka.ports import OutgoingRecords
from streamlet.testing.memory_ports import MemorySink
from streamlet.topology.graph import Topology
from tests.unit.runtime.members import PARTITIONS, Group, wait_for

KEYS = 40


def matching() -> Topology:
    app = App("app")
    words = app.stream(re.compile("words.*"), key=str, value=str)
    words.group_by_key().count(store="counts").to_stream().to("counts")
    return app.topology()


@pytest.mark.parametrize("second", ["one", "two"], ids=["same folder", "other folder"])
def test_a_start_reads_the_other_topics_of_the_pattern(tmp_path: Path, second: str) -> None:
    group = Group(tmp_path, matching())
    group.log.create("words-deleted", PARTITIONS)

    def run(name: str, *topics: str) -> None:
        expected = group.put_out + KEYS * len(topics)
        for topic in topics:
            sink = MemorySink(group.log)
            sink.send(OutgoingRecords(topic, [b"k%d" % i for i in range(KEYS)], [b"x"] * KEYS))
        member = group.member(name)
        wait_for(lambda: member.failed or group.put_out == expected, "all counted")
        member.told.set()
        member.thread.join()
        assert member.failed is None

    run("one", "words", "words-deleted")
    group.log.delete("words-deleted")
    run(second, "words")
    assert group.counts() == {f"k{i}": [1, 2, 3] for i in range(KEYS)}
