"""Headers that the client cannot read: one record is at fault, and each is asked once."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.errors import ProcessingError
from streamlet.kafka.ports import PartitionBatch
from streamlet.kafka.split import read_headers
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.state.task_state import TaskState
from streamlet.types import TaskId, TopicPartition


@attrs.define
class Asked:
    """A message that notes how often it is asked for its headers."""

    number: int
    error: Exception | None = None
    count: int = 0

    def offset(self) -> int:
        return self.number

    def headers(self) -> Any:
        self.count += 1
        if self.error is not None:
            raise self.error
        return [("n", b"%d" % self.number)]


def wrapped() -> Exception:
    """What confluent-kafka raises."""
    try:
        b"\xff\xfe".decode()
    except UnicodeDecodeError as error:
        cause = error
    found = SystemError("<method 'headers'> returned a result with an exception set")
    found.__cause__ = cause
    return found


def test_only_the_record_at_fault_has_no_headers_and_none_is_asked_twice() -> None:
    run = [Asked(5), Asked(6, wrapped()), Asked(7, wrapped()), Asked(8), Asked(9, wrapped())]
    headers, unreadable = read_headers(run, Asked.headers)
    assert headers == [[("n", b"5")], None, None, [("n", b"8")], None]
    assert unreadable is not None
    assert unreadable.keys() == {6, 7, 9}
    assert unreadable[6].startswith("UnicodeDecodeError: 'utf-8' codec can't decode")
    assert [one.count for one in run] == [1] * 5
    assert read_headers([Asked(1)], Asked.headers) == ([[("n", b"1")]], None)


def task(policy: Any) -> Task:
    app = sl.App("heads", on_error=policy)
    app.stream("in", key=str, value=str).to("out")
    (part,) = app.topology().subtopologies
    state = TaskState(None, part.stores, 1 << 20)
    return Task(
        TaskId(0, 0),
        part,
        state,
        {TopicPartition("in", 0): 5},
        policy=ErrorPolicy.of(policy),
        partition_counts={"out": 1},
    )


def batch() -> PartitionBatch:
    keys, values = [b"a", b"b", b"c"], [b"1", b"2", b"3"]
    heads: Any = [[("n", b"1")], None, None]
    return PartitionBatch("in", 0, range(5, 8), [*keys], [*values], [0] * 3, heads, {6: "no name"})


def test_the_policy_answers_it_and_reading_goes_on_behind_it() -> None:
    letters, out = sorted(task(("dead_letter", "dlq")).process(batch()), key=lambda one: one.topic)
    assert (letters.keys, letters.values) == ([b"b"], [b"2"])
    reason = dict((letters.headers or [])[0] or ())
    assert reason["streamlet.message"] == b"headers: no name"
    assert reason["streamlet.offset"] == b"6"
    assert (out.keys, out.values) == ([b"a", b"c"], [b"1", b"3"])
    assert out.headers == [[("n", b"1")], None]
    with pytest.raises(ProcessingError, match=r"headers: no name.* at in-0 offset 6, operator"):
        task("fail").process(batch())


def test_a_part_of_a_batch_knows_its_own() -> None:
    for part in (batch().slice(1), batch().select([False, True, True])):
        assert part.unreadable == {6: "no name"}
        (out,) = task("skip").process(part)
        assert out.keys == [b"c"]
