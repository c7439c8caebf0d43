"""Origins of output records: the header, and readers that drop repetitions by it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

import streamlet as sl
from streamlet.consumer import ConsumerRecord
from streamlet.errors import MissingTopicError, RecordRefusedError, TopologyError
from streamlet.kafka.ports import Headers, OutgoingRecords
from streamlet.origins import ORIGIN_HEADER, Origin, RepeatFilter, without_repeats
from streamlet.processing.edges.records import edge_of, source_of
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.runtime.catalog import prepare_topics
from streamlet.testing import TopologyTestDriver
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import TopicPartition

IN, OTHER = TopicPartition("in", 3), TopicPartition("other", 0)
SOURCE = f"{source_of(IN):08x}"


def writer(incarnation: int = 0, partitions: int = 1) -> EdgeWriter:
    edges = {tp: edge_of(tp, "", incarnation) for tp in (IN, OTHER)}
    return EdgeWriter({"out": partitions}, edges, {"out"})


def output(offsets: Sequence[int], source: TopicPartition = IN) -> Output:
    values: list[bytes | None] = [str(offset).encode() for offset in offsets]
    keys: list[bytes | None] = [b"k"] * len(offsets)
    return Output(
        "out", keys, values, [0] * len(offsets), origins=[(len(offsets), source, offsets)]
    )


class Topic:
    """One partition of the output topic."""

    def __init__(self) -> None:
        self.records: list[ConsumerRecord] = []

    def write(self, written: Output, lost: Sequence[int] = ()) -> None:
        """Append records, but for those of these places, whose delivery fails."""
        assert written.headers is not None
        rows = zip(written.values, written.headers, strict=True)
        for place, (value, headers) in enumerate(rows):
            if place not in lost:
                self.append(value, headers or ())

    def append(self, value: bytes | None, headers: Headers = ()) -> None:
        self.records.append(ConsumerRecord("out", 0, len(self.records), None, value, 0, headers))


def values(records: Sequence[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in without_repeats(records)]


def test_a_record_says_where_it_stems_from() -> None:
    topic = Topic()
    topic.write(writer(7).prefixed(output([41, 41, 42])))
    assert [Origin.of(record) for record in topic.records] == [
        Origin("in", 3, 41, 0, SOURCE, 7, None),
        Origin("in", 3, 41, 1, SOURCE, 7, (41, 0)),
        Origin("in", 3, 42, 0, SOURCE, 7, (41, 1)),
    ]
    assert dict(topic.records[2].headers)[ORIGIN_HEADER] == f"in/3/{SOURCE}/7/42/0/41.1".encode()


@pytest.mark.parametrize(
    "value",
    [b"", b"in/3/x/0/1/0", b"in/a/x/0/1/0/-", b"in/3/x/0/1/0/1", b"\xff/3/x/0/1/0/a.b", None],
)
def test_a_header_that_cannot_be_read_is_no_origin(value: bytes | None) -> None:
    topic = Topic()
    topic.append(b"1", [(ORIGIN_HEADER, value)])
    assert Origin.of(topic.records[0]) is None
    assert values(topic.records) == [b"1"]


def test_an_origin_takes_the_place_of_that_of_the_input_and_other_headers_stay() -> None:
    given = output([5])
    given.headers = [[("trace", b"t"), (ORIGIN_HEADER, b"in/9/x/0/1/0/-"), ("trace", b"u")]]
    written = writer().prefixed(given)
    assert written.headers is not None
    assert [name for name, _ in written.headers[0] or ()] == ["trace", "trace", ORIGIN_HEADER]
    assert Origin.from_headers(written.headers[0]) == Origin("in", 3, 5, 0, SOURCE, 0, None)


def test_a_repetition_is_dropped() -> None:
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1, 2])))
    again = writer()
    topic.write(again.prefixed(output([1, 2, 3])))
    topic.write(again.prefixed(output([4])))
    assert values(topic.records) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_record_that_went_out_before_a_failed_one_is_taken_when_it_comes_again() -> None:
    """Without ``previous`` the record that was written again would be lost."""
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1, 2])), lost=[1])
    topic.write(writer().prefixed(output([0, 1, 2, 3])))
    assert values(topic.records) == [b"0", b"1", b"2", b"3"]


def test_a_first_record_that_was_lost_is_noticed_at_the_beginning_of_a_topic() -> None:
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1])), lost=[0])
    topic.write(writer().prefixed(output([0, 1])))
    assert values(topic.records) == [b"0", b"1"]


def test_each_input_partition_and_each_output_partition_is_for_itself() -> None:
    one = writer(partitions=2)
    mine, other = output([0, 1, 2]), output([0, 1], OTHER)
    mine.partitions, other.partitions = [0, 1, 0], [0, 0]
    written = [one.prefixed(mine), one.prefixed(other)]
    found = [Origin.from_headers(headers) for out in written for headers in out.headers or ()]
    assert [one and one.previous for one in found] == [None, None, (0, 0), None, (0, 0)]
    repeats = RepeatFilter()
    headers = (written[0].headers or [])[0]
    assert repeats.takes("out", 0, 0, headers)
    assert repeats.takes("out", 1, 0, headers)
    assert not repeats.takes("out", 1, 1, headers)
    assert repeats.takes("elsewhere", 1, 1, headers)


def test_positions_that_were_set_back_on_purpose_count_again_and_zombies_do_not() -> None:
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1])))
    topic.write(writer(incarnation=9).prefixed(output([0, 1])))
    topic.write(writer().prefixed(output([2])))
    assert values(topic.records) == [b"0", b"1", b"0", b"1"]


def test_a_reader_that_begins_amid_a_topic_takes_what_follows_on_what_it_did_not_read() -> None:
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1, 2, 3])))
    assert values(topic.records[2:]) == [b"2", b"3"]


def test_records_that_were_compacted_away_leave_gaps_that_are_no_failures() -> None:
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1, 2, 3, 4])))
    left = [topic.records[place] for place in (0, 2, 4)]
    assert values(left) == [b"0", b"2", b"4"]


def test_records_read_twice_are_repetitions() -> None:
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1, 2])))
    repeats = RepeatFilter()
    assert len(list(repeats.new(topic.records))) == 3
    assert list(repeats.new(topic.records[1:])) == []


def test_records_without_an_origin_pass() -> None:
    topic = Topic()
    topic.append(b"a")
    topic.append(b"a", [("trace", b"t")])
    assert values(topic.records) == [b"a", b"a"]


def test_a_reader_goes_on_with_what_it_had_seen() -> None:
    with pytest.raises(TypeError, match="expects what seen"):
        sl.RepeatFilter([1])  # type: ignore[arg-type]
    topic = Topic()
    topic.write(writer().prefixed(output([0, 1, 2])))
    first = RepeatFilter()
    assert len(list(first.new(topic.records))) == 3
    topic.write(writer().prefixed(output([1, 2, 3])))
    kept = json.loads(json.dumps(first.seen()))
    new = [record.value for record in RepeatFilter(kept).new(topic.records[3:])]
    assert new == [b"3"]
    assert [record.value for record in RepeatFilter().new(topic.records[3:])] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_fails_each_record_is_read_once_and_in_order(seed: int) -> None:
    """Periods of a task with failed deliveries; a commit needs all before it to be delivered."""
    dice = random.Random(seed)
    topic, committed, total = Topic(), 0, 60
    zombie: Output | None = None
    while committed < total:
        one, position = writer(), committed
        while committed < total:
            end = min(total, position + dice.randint(1, 6))
            written = one.prefixed(output(batch(position, end)))
            if zombie is not None and dice.random() < 0.3:
                topic.write(zombie)
                zombie = None
            lost = [place for place in range(len(written.keys)) if dice.random() < 0.1]
            topic.write(written, lost)
            position = end
            if lost:  # nothing is committed any more, though more may be on its way
                if position < total:
                    topic.write(one.prefixed(output(batch(position, position + 1))))
                break
            if dice.random() < 0.4 or position == total:
                committed = position
                one.committed({IN: position, OTHER: 0})
            elif dice.random() < 0.3:
                zombie = one.prefixed(output(batch(position, min(total, position + 3))))
                break
    wanted = [str(offset).encode() for offset in batch(0, total)]
    assert len(topic.records) > len(wanted)
    assert values(topic.records) == wanted


def batch(start: int, end: int) -> list[int]:
    """The offsets of output records: an input record becomes one, two or three."""
    return [offset for offset in range(start, end) for _ in range(1 + offset % 3)]


def test_a_record_that_the_producer_refuses_leaves_no_gap() -> None:
    taken: list[Headers | None] = []

    class Sink:
        def send(self, records: OutgoingRecords) -> None:
            for index, value in enumerate(records.values):
                if value == b"1":
                    raise RecordRefusedError("too large", index)
                taken.append((records.headers or [])[index])

        def flush(self, timeout_ms: int) -> None: ...
        def reset(self) -> None: ...
        def close(self) -> None: ...

    collector = RecordCollector(Sink(), ErrorPolicy.of("skip"), "app")
    collector.send(output([0, 1, 2]), writer())
    found = [Origin.from_headers(headers) for headers in taken]
    assert [one and (one.offset, one.previous) for one in found] == [(0, None), (2, (0, 0))]


def shop(*, origin: bool = True) -> sl.App:
    app = sl.App("shop")
    app.stream("orders", key=str, value=int).to("invoices", origin=origin)
    return app


def test_the_driver_writes_origins_as_a_worker_does() -> None:
    app = sl.App("shop")
    orders = app.stream("orders", key=str, value=int)
    orders.flat_map_values(lambda total: [total, -total], value=int).to("invoices", origin=True)
    with TopologyTestDriver(app, partitions={"orders": 2}) as driver:
        driver.pipe_input("orders", "ann", 1, partition=1)
        driver.pipe_input("orders", "ann", 2, partition=1)
        found = [Origin.from_headers(one.headers) for one in driver.read_output("invoices")]
    assert [one and (one.topic, one.partition, one.offset, one.index) for one in found] == [
        ("orders", 1, 0, 0),
        ("orders", 1, 0, 1),
        ("orders", 1, 1, 0),
        ("orders", 1, 1, 1),
    ]


def test_two_branches_to_one_topic_keep_the_order_of_origins() -> None:
    app = sl.App("shop")
    orders = app.stream("orders", key=str, value=int)
    for sign in (1, -1):
        signed = orders.map_values(lambda total, sign=sign: total * sign, value=int)
        signed.to("invoices", origin=True)
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("orders", [("ann", 1), ("bob", 2)])
        records = driver.read_output("invoices")
    topic = Topic()
    for one in records:
        topic.append(one.value, one.headers or ())
    assert values(topic.records) == [1, -1, 2, -2]


def test_a_topic_has_origins_or_none() -> None:
    app = shop()
    with pytest.raises(TopologyError, match="'invoices' is written with origins and without"):
        app.stream("more", key=str, value=int).to("invoices")


def test_origins_need_one_topic() -> None:
    app = sl.App("shop")
    orders = app.stream("orders", key=str, value=int)
    with pytest.raises(TopologyError, match="origin=True needs one topic"):
        orders.to(lambda user, total: user, origin=True)


def test_a_topic_with_origins_must_exist() -> None:
    log = MemoryLog()
    log.create("orders", 1)
    with pytest.raises(MissingTopicError, match="'invoices' is written with origins"):
        prepare_topics(shop().topology(), MemoryAdmin(log), replication=1, given={})
    prepare_topics(shop(origin=False).topology(), MemoryAdmin(log), replication=1, given={})


# -- headers that another program wrote ------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"in/-1/s/0/1/0/-",
        b"in/2147483648/s/0/1/0/-",
        b"in/0/s/0/9223372036854775808/0/-",
        b"in/0/s/0/1/1048576/-",
        b"in/0/s/4294967296/1/0/-",
        b"in/0/s/-3/1/0/-",
        b"in/0/s/0/1_0/0/-",
        b"in/0/s/0/ 1/0/-",
        b"in/0/s/0/1/0/1.-2",
        b"in/0/s/0/" + b"9" * 5000 + b"/0/-",
    ],
)
def test_numbers_that_cannot_be_are_no_origin(value: bytes) -> None:
    assert Origin.from_headers([(ORIGIN_HEADER, value)]) is None


def _honest(repeats: RepeatFilter, start: int, count: int) -> int:
    """The number of records that count of those with these input offsets."""
    headers = (
        f"in/0/s/0/{at}/0/{f'{at - 1}.0' if at else '-'}" for at in range(start, start + count)
    )
    return sum(repeats.takes("out", 0, at, _header(one)) for at, one in enumerate(headers, start))


def _header(text: str) -> list[tuple[str, bytes | None]]:
    return [(ORIGIN_HEADER, text.encode())]


@pytest.mark.parametrize("offset", [5_000, 10**9, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("previous", ["-", "9.0"])
@pytest.mark.parametrize("before", [0, 10])
def test_a_forged_origin_silences_no_honest_record(offset: int, previous: str, before: int) -> None:
    repeats = RepeatFilter()
    assert _honest(repeats, 0, before) == before
    repeats.takes("out", 0, before, _header(f"in/0/s/0/{offset}/0/{previous}"))
    assert _honest(repeats, before, 1000) == 1000
    assert _honest(repeats, 0, 1000) == 0


@pytest.mark.parametrize("incarnation", [1, 7, (1 << 32) - 1])
def test_a_forged_incarnation_silences_no_honest_record(incarnation: int) -> None:
    repeats = RepeatFilter()
    assert _honest(repeats, 0, 10) == 10
    assert repeats.takes("out", 0, 10, _header(f"in/0/s/{incarnation}/3/0/-"))
    assert _honest(repeats, 10, 1000) == 1000


def test_the_second_record_of_an_incarnation_ends_the_earlier_one() -> None:
    repeats = RepeatFilter()
    _honest(repeats, 0, 10)
    assert repeats.takes("out", 0, 10, _header("in/0/s/1/0/0/-"))
    assert repeats.takes("out", 0, 11, _header("in/0/s/1/1/0/0.0"))
    assert not repeats.takes("out", 0, 12, _header("in/0/s/1/0/0/-"))
    assert _honest(repeats, 10, 10) == 0
