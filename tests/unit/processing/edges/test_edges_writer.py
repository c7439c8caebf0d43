"""Prefixes of records to exact repartition topics."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.errors import ProcessingError
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.processing.edges import records
from streamlet.processing.edges.records import (
    INDEX_BITS,
    cut,
    edge_of,
    pack,
    pack_next,
    source_of,
    unpack,
)
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.outputs import Output
from streamlet.types import TopicPartition

IN, OTHER = TopicPartition("in", 3), TopicPartition("other", 3)
EDGES = {tp: edge_of(tp) for tp in (IN, OTHER)}
WORD = st.integers(0, (1 << 64) - 1)


@pytest.fixture(autouse=True, params=["extension", "python"])
def _passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(records, "pack_origins", None)
    elif records.pack_origins is None:
        pytest.skip("the extension was not built")


def output(
    keys: Sequence[bytes | None], *runs: tuple[int, TopicPartition, Sequence[int]]
) -> Output:
    values: list[bytes | None] = [b"v"] * len(keys)
    return Output("between", [*keys], values, [0] * len(keys), origins=[*runs])


def chain(written: Output) -> list[tuple[int, int, int]]:
    """Offset, index and offset before it (-1: none) of each record."""
    found = unpack(written.values)
    assert found is not None
    return [
        (
            (origin >> INDEX_BITS) - 1,
            (origin & (1 << INDEX_BITS) - 1) >> 1,
            (previous >> INDEX_BITS) - 1,
        )
        for origin, previous in zip(found.origins, found.previous, strict=True)
    ]


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), WORD, WORD, WORD)))
def test_what_was_packed_is_unpacked(rows: list[tuple[bytes | None, int, int, int]]) -> None:
    values, edges = [row[0] for row in rows], [row[1] for row in rows]
    origins, previous = [row[2] & ~1 for row in rows], [row[3] for row in rows]
    found = unpack(pack(values, edges, origins, previous))
    assert found is not None
    assert found.values == values
    assert list(found.edges) == edges
    assert [origin & ~1 for origin in found.origins] == origins
    assert list(found.previous) == previous


@pytest.mark.parametrize("value", [None, b"", b"plain", b"x" * 100])
def test_a_plain_value_is_not_unpacked(value: bytes | None) -> None:
    assert unpack([*pack([b"a"], [1], [2], [3]), value]) is None


def test_each_partition_has_a_chain_of_its_own() -> None:
    writer = EdgeWriter({"between": 1}, EDGES)
    written = writer.prefixed(output([b"a", b"b"], (2, IN, [7, 7])))
    assert chain(written) == [(7, 0, -1), (7, 1, 7)]
    more = writer.prefixed(output([b"a", b"c", b"d"], (1, IN, [9]), (2, OTHER, [0, 4])))
    assert chain(more) == [(9, 0, 7), (0, 0, -1), (4, 0, 0)]
    found = unpack(more.values)
    assert found is not None
    assert list(found.edges) == [source_of(IN) << 32, *[source_of(OTHER) << 32] * 2]


def test_a_source_that_was_set_back_is_another_edge() -> None:
    writer = EdgeWriter({"between": 4}, {IN: edge_of(IN, "id", 17)})
    found = unpack(writer.prefixed(output([b"a"], (1, IN, [7]))).values)
    assert found is not None
    assert list(found.edges) == [edge_of(IN, "id", 17)]


def test_a_topic_that_was_made_again_is_another_source() -> None:
    assert source_of(IN, "one") != source_of(IN, "other")


def test_a_chain_begins_again_behind_a_commit() -> None:
    """A reader that misses a record for good, because the topic lost it, goes on there."""
    writer = EdgeWriter({"between": 1}, EDGES)
    writer.prefixed(output([b"a", b"b"], (2, IN, [7, 8])))
    writer.committed({IN: 8, OTHER: 0})
    assert chain(writer.prefixed(output([b"c"], (1, IN, [9])))) == [(9, 0, 8)]
    writer.committed({IN: 10, OTHER: 0})
    assert chain(writer.prefixed(output([b"d"], (1, IN, [10])))) == [(10, 0, -1)]


def test_other_topics_are_left_alone() -> None:
    plain = Output("elsewhere", [b"a"], [b"v"], [0], origins=[(1, IN, [0])])
    assert EdgeWriter({"between": 4}, EDGES).prefixed(plain) is plain


def test_what_the_producer_refused_leaves_no_gap() -> None:
    writer, wanted = EdgeWriter({"between": 1}, EDGES), EdgeWriter({"between": 1}, EDGES)
    records = output([b"a", b"b", b"c"], (3, IN, [1, 2, 3]))
    writer.prefixed(output([b"z"], (1, IN, [0])))
    wanted.prefixed(output([b"z"], (1, IN, [0])))
    writer.prefixed(records)
    writer.refused(records, 1)
    wanted.prefixed(records.slice(0, 1))
    assert writer.prefixed(records.behind(1)) == wanted.prefixed(records.behind(1))


def test_the_first_of_all_may_be_refused() -> None:
    writer = EdgeWriter({"between": 1}, EDGES)
    records = output([b"a", b"b"], (2, IN, [1, 2]))
    writer.prefixed(records)
    writer.refused(records, 0)
    assert chain(writer.prefixed(records.behind(0))) == [(2, 0, -1)]


def test_too_many_records_of_one_are_refused() -> None:
    count = (1 << INDEX_BITS) // 2
    writer = EdgeWriter({"between": 1}, EDGES)
    writer.prefixed(output([b"a"] * count, (count, IN, [5] * count)))
    with pytest.raises(ProcessingError, match="more than 524288 records for one partition"):
        writer.prefixed(output([b"a"], (1, IN, [5])))


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(1, 9))
def test_partitions_are_those_of_the_producer(keys: list[bytes | None], partitions: int) -> None:
    chosen = KeyPartitioner(partitions).choose(keys, range(100, 100 + len(keys)))
    assert chosen == [
        (100 + at) % partitions if key is None else partition_of(key, partitions)
        for at, key in enumerate(keys)
    ]


def test_a_partitioner_remembers_so_many_keys_and_no_more() -> None:
    partitioner = KeyPartitioner(7)
    for start in range(0, 250_000, 50_000):
        keys: list[bytes | None] = [b"%d" % n for n in range(start, start + 50_000)]
        assert partitioner.choose(keys, keys and [0] * len(keys))[9] == partition_of(
            b"%d" % (start + 9), 7
        )
    assert len(partitioner._known) <= 100_000


def test_the_extension_packs_and_cuts_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    if records.pack_origins is None:
        pytest.skip("played with it")
    dice = random.Random(3)
    for _ in range(200):
        count, many = dice.randrange(1, 30), dice.randrange(1, 4)
        start = dice.choice([0, 9, (1 << 43) - 200])
        runs: list[Sequence[int]] = [range(start, start + count)]
        runs.append(sorted(start + dice.randrange(5) for _ in range(count)))
        offsets = dice.choice(runs)
        partitions = [dice.randrange(many) for _ in range(count)]
        values = [dice.choice([None, b"", b"v" * 9]) for _ in range(count)]
        chains = [[dice.choice([0, (start + 1 << INDEX_BITS) + 1])] * many for _ in range(2)]
        chains[1] = [*chains[0]]
        edge = dice.choice([0, EDGES[IN], (1 << 64) - 1])
        columns = values, edge, offsets, partitions
        packed = pack_next(*columns, chains[0])
        again = values, edge ^ 1, [offset + 100 for offset in offsets], partitions
        mixed = packed + pack_next(*again, chains[0])
        column = dice.choice([packed, mixed, [*packed, b"plain"], [*packed, None], packed[::-1]])
        found = cut(column)
        with monkeypatch.context() as without:
            without.setattr(records, "pack_origins", None)
            without.setattr(records, "cut_origins", None)
            assert pack_next(*columns, chains[1]) == packed
            pack_next(*again, chains[1])
            assert cut(column) == found
        assert chains[0] == chains[1]


@pytest.mark.parametrize(
    "columns",
    [
        ([b"a"], [1, 2], [0], [0]),
        ([b"a"], [1], [0, 0], [0]),
        ([b"a"], [1], [1], [0]),
        ([b"a"], [1], [-1], [0]),
        ([b"a"], [-1], [0], [0]),
        ([b"a"], [1 << 43], [0], [0]),
        (["a"], [1], [0], [0]),
        ([b"a"], ["1"], [0], [0]),
        ([b"a"], [1], [0], [None]),
        ([b"a"], [1], [0], (0,)),
        (None, [1], [0], [0]),
    ],
)
def test_the_extension_refuses_what_are_no_such_columns(columns: tuple[Any, ...]) -> None:
    if records.pack_origins is None or records.cut_origins is None:
        pytest.skip("played with it")
    with pytest.raises((TypeError, ValueError, OverflowError)):
        records.pack_origins(*columns, 1, 2)
    with pytest.raises(TypeError):
        records.cut_origins(["text"], 1)
