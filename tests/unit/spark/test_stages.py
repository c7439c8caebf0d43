"""Tasks as Spark's stages run them, with a dict in Spark's place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import streamlet as sl
from examples.wordcount import words
from streamlet.errors import ProcessingError, StateError, TopologyError
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.spark.checkpoint import compare, described
from streamlet.spark.kafka.latest import Latest
from streamlet.spark.kafka.placement import MODULUS, groups, key_hash, shuffle_partitions
from streamlet.spark.plan.plan import SparkPlan, plan
from streamlet.spark.rows.blobs import unpack
from streamlet.spark.rows.merging import in_order
from streamlet.spark.rows.packing import Packed, Sender, pack_raw
from streamlet.spark.rows.tasks import Pack
from streamlet.spark.state.run import Runner
from streamlet.spark.state.segments import SegmentLimits
from streamlet.testing import TopologyTestDriver
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

pytest.importorskip("numpy")

HERE = f"{__name__}:"
SMALL = SegmentLimits(merge_bytes=200, small_runs=4, block_bytes=150)

counting = sl.App("counting")
(
    counting.stream("lines", key=bytes, value=str)
    .flat_map_values(words)
    .group_by(lambda _, word: word, key=str)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)

joining = sl.App("joining")
joining.stream("orders", key=str, value=str).join(
    joining.table("customers", key=str, value=str), lambda order, customer: f"{order}/{customer}"
).to("named")


class KeptInMemory:
    """What Spark keeps of one task; a copy is what a batch that does not count started from."""

    def __init__(self) -> None:
        self.segments: dict[int, bytes] = {}
        self.now: bytes | None = None

    def copy(self) -> KeptInMemory:
        other = KeptInMemory()
        other.segments, other.now = dict(self.segments), self.now
        return other

    def head(self) -> bytes | None:
        return self.now

    def set_head(self, head: bytes) -> None:
        self.now = head

    def get(self, number: int) -> bytes:
        return self.segments[number]

    def put(self, number: int, segment: bytes) -> None:
        assert number not in self.segments
        self.segments[number] = segment

    def remove(self, number: int) -> None:
        del self.segments[number]


def planned(app: sl.App, **counts: int) -> SparkPlan:
    name = next(name for name, value in globals().items() if value is app)
    return plan(HERE + name, app.topology(), counts)


def text(topic: str, first: int, *records: tuple[str | None, str | None, int]) -> PartitionBatch:
    return PartitionBatch(
        topic,
        0,
        range(first, first + len(records)),
        [None if key is None else key.encode() for key, _, _ in records],
        [None if value is None else value.encode() for _, value, _ in records],
        [time for _, _, time in records],
    )


def raw_rows(laid_out: SparkPlan, raw: PartitionBatch) -> list[Packed]:
    """Records as the map packs them."""
    columns = {
        "key": pa.array(raw.keys, pa.binary()),
        "value": pa.array(raw.values, pa.binary()),
        "offset": pa.array(raw.offsets, pa.int64()),
        "timestamp": pa.array(raw.timestamps, pa.int64()),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    return list(pack_raw(laid_out, TopicPartition(raw.topic, raw.partition), rows))


def taken(outputs: Iterator[list[Output]]) -> list[tuple[bytes | None, bytes | None]]:
    return [
        pair
        for some in outputs
        for output in some
        for pair in zip(output.keys, output.values, strict=True)
    ]


def counted(pairs: list[tuple[bytes | None, bytes | None]]) -> list[tuple[str, int]]:
    return [((k or b"").decode(), int.from_bytes(v or b"", "big")) for k, v in pairs]


def word_rows(laid_out: SparkPlan, number: int, *some: str) -> list[Packed]:
    """Words as subtopology 0 sends them on; one partition."""
    keys: list[bytes | None] = [word.encode() for word in some]
    output = Output("counting-counts-repartition", keys, keys, [number] * len(keys))
    return list(Sender(laid_out, 0, "0_0").rows([output], number))


COUNTS = TaskId(1, 0)


def test_tasks_are_dealt_out_evenly_over_any_usual_number_of_shuffle_partitions() -> None:
    found = groups(40)
    assert found[:12] == groups(12)  # a group is a task's for ever
    for partitions in (*range(1, 11), 16, 20, 64, 100, 128, 200):
        assert MODULUS % partitions == 0


@pytest.mark.parametrize(
    ("tasks", "cores", "number"),
    [(4, 2, 2), (4, 8, 4), (4, 3, 2), (1, 8, 1), (5, 4, 3), (7, 1, 1), (12, 8, 6), (22, 11, 10)],
)
def test_no_shuffle_partition_is_idle_while_another_has_two_tasks(
    tasks: int, cores: int, number: int
) -> None:
    assert shuffle_partitions(tasks, cores) == number


@pytest.mark.parametrize("key", [b"", b"a", b"ab", b"abc", b"abcd", b"\xff" * 7, b"streamlet" * 9])
def test_keys_go_to_the_partition_that_kafka_gives_them(key: bytes) -> None:
    assert [key_hash(key) % n for n in (1, 3, 12)] == [partition_of(key, n) for n in (1, 3, 12)]


def test_word_count_is_a_map_and_one_stage() -> None:
    laid_out = planned(counting, lines=3)
    assert laid_out.mapped == {0}
    assert [sorted(stage.tasks.values()) for stage in laid_out.stages] == [
        [TaskId(1, 0), TaskId(1, 1), TaskId(1, 2)]
    ]


def test_a_chain_of_aggregations_is_a_chain_of_stages_and_hands_on_what_is_for_later() -> None:
    app = sl.App("chain")
    first = app.stream("a", key=str, value=str).group_by(lambda _, v: v, key=str).count(store="x")
    second = first.to_stream().group_by(lambda _, n: n, key=int).count(store="y")
    second.to_stream().to("out")
    laid_out = plan(HERE + "chain", app.topology(), {"a": 2})
    assert [len(stage.tasks) for stage in laid_out.stages] == [2, 2]
    first_task = laid_out.stages[0].group_of[TaskId(1, 1)]
    assert laid_out.address(0, "chain-x-repartition", 1, "0_0") == first_task
    assert laid_out.address(0, "chain-y-repartition", 1, "0_0") in laid_out.stages[0].passing
    assert laid_out.address(1, "chain-y-repartition", 1, "0_0") in laid_out.stages[1].tasks


def test_a_subtopology_that_writes_to_itself_is_refused() -> None:
    app = sl.App("circle")
    stream = app.stream("a", key=str, value=int)
    total = stream.group_by(lambda _, v: str(v), key=str).count(store="total")
    stream.join(total, lambda value, count: value + count).to("out", value=int)
    with pytest.raises(
        TopologyError,
        match=r"AGGREGATE-\d+ by way of circle-total-repartition.*--engine native can",
    ):
        plan(HERE + "circle", app.topology(), {"a": 2})


def test_counts_go_on_from_batch_to_batch_in_any_worker() -> None:
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    warm, other = (Runner(laid_out, SegmentLimits()) for _ in range(2))
    out = [
        counted(taken(runner.run(COUNTS, word_rows(laid_out, 0, "a", "b", "a"), kept, batch)))
        for batch, runner in enumerate([warm, warm, other, warm])
    ]
    assert out == [[("a", 2 * n + 1), ("b", n + 1), ("a", 2 * n + 2)] for n in range(4)]


def test_an_attempt_that_does_not_count_leaves_no_trace() -> None:
    """Also in the worker that made it: its store has seen the records and must not be believed."""
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    runner = Runner(laid_out, SegmentLimits())
    rows = word_rows(laid_out, 0, "a")
    taken(runner.run(COUNTS, rows, kept, 0))
    lost = kept.copy()
    taken(runner.run(COUNTS, rows, lost, 1))  # to the end, and then Spark drops it
    half = runner.run(COUNTS, word_rows(laid_out, 0, *"aaa"), kept.copy(), 1)
    next(half)
    half.close()  # stopped in the middle
    assert counted(taken(runner.run(COUNTS, rows, kept, 1))) == [("a", 2)]


def test_state_grows_with_the_keys_and_not_with_the_batches() -> None:
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    runner = Runner(laid_out, SMALL)
    some = [f"word-{n}" for n in range(30)]
    sizes = []
    for batch in range(60):
        taken(runner.run(COUNTS, word_rows(laid_out, 0, *some), kept, batch))
        sizes.append(sum(map(len, kept.segments.values())))
    assert max(sizes[30:]) <= max(sizes[:30])
    last = Runner(laid_out, SMALL).run(COUNTS, word_rows(laid_out, 0, *some), kept, 60)
    assert counted(taken(last)) == [(word, 61) for word in some]


def test_an_attempt_that_does_not_count_leaves_no_trace_in_merged_state() -> None:
    """Other segments under the same numbers, and merges: none of it may be taken for Spark's."""
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    runners = [Runner(laid_out, SMALL), Runner(laid_out, SMALL)]
    dice, wanted = random.Random(5), dict[str, int]()
    for batch in range(80):
        some = [f"word-{dice.randrange(30)}" for _ in range(6)]
        lost = [f"word-{dice.randrange(30)}" for _ in range(6)]
        taken(dice.choice(runners).run(COUNTS, word_rows(laid_out, 0, *lost), kept.copy(), batch))
        killed = dice.choice(runners).run(COUNTS, word_rows(laid_out, 0, *lost), kept.copy(), batch)
        next(killed)
        killed.close()
        rows = word_rows(laid_out, 0, *some)
        found = counted(taken(dice.choice(runners).run(COUNTS, rows, kept, batch)))
        for word in some:
            wanted[word] = wanted.get(word, 0) + 1
        assert dict(found) == {word: wanted[word] for word in some}


def test_a_mark_that_came_back_too_late_is_not_believed() -> None:
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    stale, other = (Runner(laid_out, SMALL) for _ in range(2))
    rows = word_rows(laid_out, 0, "a", "b")
    for batch, runner in enumerate([stale, other, other, other, stale]):
        found = counted(taken(runner.run(COUNTS, rows, kept, batch)))
        assert found == [("a", batch + 1), ("b", batch + 1)]


def test_state_of_another_version_is_refused() -> None:
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    kept.now = msgspec.msgpack.encode(["1_0", b"", 1, b"mark", [0, 3, 10, 20, 2], 3, 5, {}])
    with pytest.raises(StateError, match="another version of streamlet"):
        taken(Runner(laid_out, SMALL).run(COUNTS, [], kept, 0))


def test_a_join_meets_records_by_their_time_however_rows_arrive() -> None:
    laid_out = planned(joining, orders=1, customers=1)
    orders = text("orders", 0, ("k", "early", 5), ("k", "late", 30))
    customers = text("customers", 0, ("k", "Ann", 1), ("k", "Ben", 20))
    for rows in ([orders, customers], [customers, orders]):
        packed = [row for raw in rows for row in raw_rows(laid_out, raw)]
        found = taken(
            Runner(laid_out, SegmentLimits()).run(TaskId(0, 0), packed, KeptInMemory(), 0)
        )
        assert [value for _, value in found] == [b"early/Ann", b"late/Ben"]


def test_rows_come_in_their_senders_order_whatever_the_sort_did_to_them() -> None:
    rows = [Packed(1, sender, n, 0, 10 * n, "t", 0, b"") for sender in "xyz" for n in range(20)]
    random.Random(3).shuffle(rows)
    ordered = list(in_order(rows))
    assert [row.time for row in ordered] == sorted(row.time for row in rows)
    for sender in "xyz":
        assert [row.first for row in ordered if row.sender == sender] == list(range(20))


def test_records_that_were_counted_are_refused_when_they_come_again() -> None:
    laid_out, kept = planned(joining, orders=1, customers=1), KeptInMemory()
    runner = Runner(laid_out, SegmentLimits())
    rows = raw_rows(laid_out, text("customers", 4, ("k", "Ann", 1)))
    taken(runner.run(TaskId(0, 0), rows, kept, 0))
    with pytest.raises(StateError, match="up to offset 5 and got 4 again"):
        taken(runner.run(TaskId(0, 0), rows, kept, 1))


def test_another_tasks_state_and_another_topologys_are_refused() -> None:
    laid_out, kept = planned(counting, lines=2), KeptInMemory()
    runner = Runner(laid_out, SegmentLimits())
    taken(runner.run(COUNTS, word_rows(laid_out, 0, "a"), kept, 0))
    with pytest.raises(StateError, match="has task 1_0 of 2 where 1_1 of 2"):
        taken(runner.run(TaskId(1, 1), [], kept, 1))
    raw = kept.now or b""
    kept.now = raw.replace(counting.topology().subtopology(1).hash, b"12345678")
    with pytest.raises(StateError, match="another version of the topology"):
        taken(runner.run(COUNTS, [], kept, 1))


def test_state_that_an_earlier_version_of_streamlet_noted_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It noted other names of serdes; the next batch notes those of now."""
    laid_out, kept, part = planned(counting, lines=2), KeptInMemory(), counting.topology()
    runner = Runner(laid_out, SegmentLimits())
    taken(runner.run(COUNTS, word_rows(laid_out, 0, "a"), kept, 0))
    raw, now = kept.now or b"", part.subtopology(1).hash
    kept.now = raw.replace(now, b"12345678")
    monkeypatch.setattr(Subtopology, "former_hash", b"12345678")
    again = Runner(laid_out, SegmentLimits())
    taken(again.run(COUNTS, word_rows(laid_out, 1, "a"), kept, 1))
    assert now in (kept.now or b"")
    assert b"12345678" not in (kept.now or b"")


def test_a_checkpoint_goes_on_only_as_what_it_was() -> None:
    topology = counting.topology()
    was = described(topology, planned(counting, lines=2))
    compare(was, was, "here")
    now = described(joining.topology(), planned(joining, orders=1, customers=1))
    with pytest.raises(StateError, match="of counting, not of joining; subtopology 0 has changed"):
        compare(was, now, "here")
    earlier = {**was, "subtopologies": was["former"]}
    compare(earlier, was, "here")
    older = {name: value for name, value in was.items() if name != "form"}
    with pytest.raises(StateError, match="another version of streamlet wrote it"):
        compare(older, was, "here")
    now = described(topology, planned(counting, lines=3))
    with pytest.raises(StateError, match="lines had 2 partitions and has 3"):
        compare(was, now, "here")


def test_a_failing_record_fails_the_batch_and_is_named() -> None:
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    output = Output("counting-counts-repartition", [b"\xff"], [b"a"], [0])
    rows = list(Sender(laid_out, 0, "0_0").rows([output], 0))
    with pytest.raises(ProcessingError, match="undecodable record"):
        taken(Runner(laid_out, SegmentLimits()).run(COUNTS, rows, kept, 0))
    assert kept.now is None


def test_the_latest_output_leaves_one_record_per_key_in_order() -> None:
    latest = Latest()
    latest.hold(
        [Output("t", [b"a", b"b", None, b"a", None], [b"1", b"2", b"3", b"4", b"5"], [0] * 5)]
    )
    latest.hold([Output("t", [b"c"], [b"6"], [1])])
    (left,) = latest.outputs()
    assert left.values == [b"2", b"3", b"4", b"5", b"6"]


def test_a_partition_that_came_later_ends_the_query() -> None:
    """Handed on like other rows that no stage knows, its records would be written to the topic."""
    pa = pytest.importorskip("pyarrow")
    columns = {"key": [b"k"], "value": [b"v"], "topic": ["orders"], "partition": [1]}
    rows = pa.RecordBatch.from_pydict(columns | {"offset": [0], "timestamp": [0]})
    pack = Pack(planned(joining, orders=1, customers=1))
    with pytest.raises(StateError, match=r"orders had 1 partition .* now has a partition 1"):
        list(pack(iter([rows])))


def test_packed_outputs_come_back_as_they_were() -> None:
    laid_out = planned(joining, orders=1, customers=1)
    columns: Any = ([b"k", None], [None, b"v"], [1, 2], [0, 3], [None, [("h", b"x"), ("h", None)]])
    (row,) = Sender(laid_out, 1, "0_0").rows([Output("named", *columns)], 0)
    back = unpack(row.records)
    assert (back.keys, back.values, back.timestamps, back.partitions) == columns[:4]
    assert [h and [tuple(x) for x in h] for h in back.headers or []] == columns[4]


def test_stages_end_with_the_same_counts_as_the_test_driver() -> None:
    lines = ["a b a", "b", "c a"]
    with TopologyTestDriver(counting) as driver:
        driver.pipe_inputs("lines", [(None, line) for line in lines])
        wanted = [(r.key, r.value) for r in driver.read_output("word-counts")]
    laid_out, kept = planned(counting, lines=1), KeptInMemory()
    rows = word_rows(laid_out, 0, *(word for line in lines for word in words(line)))
    assert counted(taken(Runner(laid_out, SegmentLimits()).run(COUNTS, rows, kept, 0))) == wanted
