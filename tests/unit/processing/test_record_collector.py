"""Outputs on their way to a producer that refuses some of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamlet.errors import ProcessingError, RecordRefusedError
from streamlet.kafka.ports import Headers, OutgoingRecords
from streamlet.processing.edges.records import PREFIX_BYTES, edge_of, unpack
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy, Retry
from streamlet.processing.record_collector import RecordCollector
from streamlet.types import TopicPartition

IN = TopicPartition("in", 3)
LARGE = b"x" * 20
LETTERS = ErrorPolicy.of(("dead_letter", "letters"))


class SmallSink:
    """A producer that takes values of ten bytes at most, as Kafka's takes a megabyte.

    Without ``times`` it refuses records that have one.
    """

    def __init__(self, most: int = 10, *, times: bool = True) -> None:
        self._most, self._times = most, times
        self.waited_ms = 0
        self.taken: list[tuple[str, bytes | None, bytes | None, Headers | None]] = []

    def send(self, records: OutgoingRecords) -> None:
        topic, headers = records.topic, records.headers
        for index, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
            if len(value or b"") > self._most or (key == b"nowhere" and topic != "letters"):
                raise RecordRefusedError(f"a record to {topic} was refused", index)
            if records.timestamps is not None and not self._times:
                raise RecordRefusedError("ahead of the clock", index, wrong_time=True)
            self.taken.append((topic, key, value, None if headers is None else headers[index]))

    def has_room(self, *, hurried: bool) -> bool:
        return True

    def push(self) -> None:
        """Nothing is queued."""

    def flush(self, timeout_ms: int) -> None:
        """Nothing is queued."""

    def reset(self) -> None:
        """Nothing is queued."""

    def close(self) -> None:
        """Nothing is open."""


def output(*records: tuple[bytes, bytes], topic: str = "out") -> Output:
    keys: list[bytes | None] = [key for key, _ in records]
    values: list[bytes | None] = [value for _, value in records]
    times = [1_000] * len(records)
    origins: list[tuple[int, TopicPartition, Sequence[int]]] = [
        (len(records), IN, range(40, 40 + len(records)))
    ]
    return Output(topic, keys, values, times, origins=origins)


def sent(policy: ErrorPolicy, given: Output) -> tuple[SmallSink, RecordCollector]:
    sink = SmallSink()
    collector = RecordCollector(sink, policy, "app")
    collector.send(given)
    return sink, collector


def test_a_refused_record_stops_the_application_and_names_where_it_came_from() -> None:
    with pytest.raises(ProcessingError, match="at in-3 offset 41, operator sink to out"):
        sent(ErrorPolicy.of("fail"), output((b"a", b"1"), (b"b", LARGE)))


def test_a_refused_record_is_skipped_and_counted_and_the_others_are_sent() -> None:
    given = output((b"a", LARGE), (b"b", b"1"), (b"c", LARGE), (b"d", b"2"))
    sink, collector = sent(ErrorPolicy.of("skip"), given)
    assert [key for _, key, _, _ in sink.taken] == [b"b", b"d"]
    assert collector.counters.skipped == 2


def test_a_refused_record_that_is_too_large_leaves_a_dead_letter_without_its_value() -> None:
    sink, collector = sent(LETTERS, output((b"a", b"1"), (b"b", LARGE), (b"c", b"2")))
    _, letter, _ = sink.taken
    assert letter[:3] == ("letters", b"b", None)
    headers = dict(letter[3] or ())
    assert headers["streamlet.offset"] == b"41"
    assert headers["streamlet.operator"] == b"sink to out"
    assert headers["streamlet.error"] == b"RecordRefusedError"
    assert collector.counters.skipped == 1


def test_the_dead_letter_of_a_time_that_is_refused_has_the_time_of_its_writing() -> None:
    sink = SmallSink(times=False)
    collector = RecordCollector(sink, LETTERS, "app")
    collector.send(output((b"a", b"1")))
    (letter,) = sink.taken
    assert letter[:3] == ("letters", b"a", b"1")
    assert dict(letter[3] or ())["streamlet.message"] == b"ahead of the clock"
    assert collector.counters.skipped == 1


def test_a_dead_letter_keeps_the_value_where_it_can() -> None:
    sink, _ = sent(LETTERS, output((b"nowhere", b"1")))
    assert [letter[:3] for letter in sink.taken] == [("letters", b"nowhere", b"1")]


def test_a_dead_letter_that_is_too_large_itself_keeps_its_reason() -> None:
    given = output((b"a", LARGE), topic="letters")
    given.headers = [[("streamlet.offset", b"7")]]
    sink, _ = sent(LETTERS, given)
    assert sink.taken == [("letters", b"a", None, [("streamlet.offset", b"7")])]


def test_a_refused_record_leaves_no_gap_between_the_prefixes() -> None:
    sink = SmallSink(most=10 + PREFIX_BYTES)
    collector = RecordCollector(sink, ErrorPolicy.of("skip"), "app")
    writer = EdgeWriter({"out": 1}, {IN: edge_of(IN)})
    collector.send(output((b"a", b"1"), (b"b", LARGE), (b"c", b"3"), (b"d", LARGE)), writer)
    found = unpack([value for _, _, value, _ in sink.taken])
    assert found is not None
    assert found.values == [b"1", b"3"]
    assert list(found.previous) == [0, found.origins[0] + 1]
    assert collector.counters.skipped == 2


def test_a_dead_letter_bears_no_prefix() -> None:
    sink = SmallSink(most=19)  # a letter is taken that is a little smaller with its prefix
    collector = RecordCollector(sink, LETTERS, "app")
    collector.send(output((b"a", b"small")), EdgeWriter({"out": 1}, {IN: edge_of(IN)}))
    assert [(topic, value) for topic, _, value, _ in sink.taken] == [("letters", b"small")]


def test_a_refused_record_is_sent_again_with_all_behind_it_and_not_for_ever() -> None:
    sink = SmallSink()
    retry = Retry(2, backoff=100, then="skip")
    collector = RecordCollector(sink, ErrorPolicy.of("fail", production=retry), "app")
    again = collector.send(output((b"a", b"1"), (b"b", LARGE), (b"c", b"2")))
    assert again is not None
    assert (again.rest.keys, again.attempt, again.pause_ms) == ([b"b", b"c"], 2, 100)
    assert again.rest.origin(0) == (IN, 41)
    assert collector.send(again.rest, attempt=again.attempt) is None
    assert [key for _, key, _, _ in sink.taken] == [b"a", b"c"]
    assert collector.counters.skipped == 1
