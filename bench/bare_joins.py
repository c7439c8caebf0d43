"""The bare loops for joins, as one would write them by hand: dicts, and no framework.

The records of both topics are taken in the order of their times, partition by partition, as a join
needs them. What changed goes to a changelog and to RocksDB each second; rows of a table to RocksDB
alone, since its topic is their changelog. The loop for foreign keys sends rows of the left table to
the partition of the right row that they name, and joins them there. As for word count, nothing is
restored.

``python -m bench.bare_joins stream_stream|stream_table|table_table|foreign_key --bootstrap …
--left … --right … --output … --state … --within …`` is one measured run.
"""

from __future__ import annotations

import argparse
import struct
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import KafkaError, Producer, TopicPartition
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from bench import bare
from bench.broker import PARTITIONS, consumer, ends

#: A record: its time, its side (0 left, 1 right), key and value.
Record = tuple[int, int, bytes, bytes]

_pack = struct.Struct(">qI").pack
_loads, _dumps = orjson.loads, orjson.dumps


class Store:
    """What changed since the last commit, and RocksDB.

    Args:
        folder: of RocksDB.
        changelog: the topic; empty: none.
        partition: of the changelog.
    """

    def __init__(self, folder: Path, changelog: str, partition: int) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self._store = Rdict(str(folder), options)
        self._write = WriteOptions()
        self._write.disable_wal = True  # type: ignore[method-assign, assignment]
        self._changelog, self._partition = changelog, partition
        self.dirty: dict[bytes, bytes] = {}

    def commit(self, producer: Producer) -> None:
        """Write what changed."""
        batch = WriteBatch(raw_mode=True)
        for row, value in self.dirty.items():
            if self._changelog:
                producer.produce(self._changelog, value, row, self._partition)
            batch.put(row, value)
        self._store.write(batch, self._write)
        self.dirty.clear()

    def forget(self, first: bytes, last: bytes) -> None:
        """Delete the rows from one key to another, which is not deleted."""
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(first, last)
        self._store.write(batch, self._write)


class InOrder:
    """Gives the records of two topics by their times, as far as both are known.

    Args:
        topics: both.
        left: how many records of each topic and partition are still to come.
    """

    def __init__(self, topics: tuple[str, str], left: list[dict[int, int]]) -> None:
        self._right = topics[1]
        self._to_come = left
        self._waiting: list[tuple[list[Record], list[Record]]] = [
            ([], []) for _ in range(PARTITIONS)
        ]

    def take(self, messages: list[Any]) -> Iterable[tuple[int, list[Record]]]:
        """Partitions with their records that need not wait."""
        for message in messages:
            side, partition = int(message.topic() == self._right), message.partition()
            record = message.timestamp()[1], side, message.key(), message.value()
            self._waiting[partition][side].append(record)
            self._to_come[side][partition] -= 1
        for partition, sides in enumerate(self._waiting):
            limits = [
                waiting[-1][0] if waiting else -1
                for side, waiting in enumerate(sides)
                if self._to_come[side][partition]
            ]
            limit = min(limits, default=1 << 62)
            some: list[Record] = []
            for waiting in sides:
                count = bisect_right(waiting, (limit + 1,))
                some += waiting[:count]
                del waiting[:count]
            if some:
                some.sort()
                yield partition, some


class StreamStream:
    """A join of two streams within a time, in one partition."""

    def __init__(self, folder: Path, output: str, partition: int, within_ms: int) -> None:
        self._output, self._within = output, within_ms
        self._kept: tuple[dict[bytes, list[tuple[int, Any]]], ...] = {}, {}
        self._stores = [
            Store(folder / str(side), f"{output}-changelog", partition) for side in (0, 1)
        ]
        self._count = self._time = 0

    def process(self, records: list[Record], producer: Producer) -> None:
        """Join records with those of the other side."""
        produce, output, within = producer.produce, self._output, self._within
        for time, side, key, raw in records:
            value = _loads(raw)
            self._kept[side].setdefault(key, []).append((time, value))
            self._count += 1
            self._stores[side].dirty[_pack(time, self._count) + key] = raw
            others = self._kept[1 - side].get(key)
            if not others:
                continue
            gone = 0
            while gone < len(others) and others[gone][0] < time - within:
                gone += 1
            del others[:gone]
            for _, other in others:
                pair = (other, value) if side else (value, other)
                produce(output, _dumps({"left": pair[0]["n"], "right": pair[1]["n"]}), key)
        self._time = records[-1][0]

    def commit(self, producer: Producer) -> None:
        """Write what came, and delete what has expired."""
        for store in self._stores:
            store.commit(producer)
            store.forget(_pack(0, 0), _pack(self._time - 2 * self._within, 0))


class StreamTable:
    """A join of a stream with a table, in one partition; of two tables with ``both``."""

    def __init__(self, folder: Path, output: str, both: bool) -> None:
        self._output, self._both = output, both
        self._rows: tuple[dict[bytes, Any], ...] = {}, {}
        self._stores = [Store(folder / str(side), "", 0) for side in (0, 1)]

    def process(self, records: list[Record], producer: Producer) -> None:
        """Join records with the rows of the other side, and keep those of tables."""
        produce, output, both = producer.produce, self._output, self._both
        for _, side, key, raw in records:
            value = _loads(raw)
            if both or side:
                self._rows[side][key] = value
                self._stores[side].dirty[key] = raw
                if not both:
                    continue
            other = self._rows[1 - side].get(key)
            if other is not None:
                pair = (other, value) if side else (value, other)
                produce(output, _dumps({"left": pair[0]["n"], "right": pair[1]["n"]}), key)

    def commit(self, producer: Producer) -> None:
        """Write what changed."""
        for store in self._stores:
            store.commit(producer)


class ForeignKey:
    """A join of two tables by foreign keys, in all partitions.

    Args:
        folder: of the stores.
        topics: of both tables.
        output: the results; the topic of rows on their way to another partition is named after it.
    """

    def __init__(self, folder: Path, topics: tuple[str, str], output: str) -> None:
        self._left, self._right = topics
        self._output, self._hop = output, f"{output}-hop"
        self._named: dict[bytes, str] = {}
        self._newest: dict[bytes, int] = {}
        self._rights: dict[bytes, Any] = {}
        self._subscribed: dict[bytes, dict[bytes, Any]] = {}
        self._rows = [Store(folder / side, "", 0) for side in ("left", "right")]
        self._hops = [
            Store(folder / str(partition), f"{output}-changelog", partition)
            for partition in range(PARTITIONS)
        ]

    def process(self, messages: list[Any], producer: Producer) -> None:
        """Take records of both tables, and rows on their way."""
        for message in messages:
            topic, key, raw = message.topic(), message.key(), message.value()
            if topic == self._left:
                self._send(key, raw, producer)
            elif topic == self._right:
                self._rights[key] = value = _loads(raw)
                self._rows[1].dirty[key] = raw
                for one, row in self._subscribed.get(key, {}).items():
                    self._result(one, row, value, producer)
            else:
                self._arrived(key, raw, message.partition(), producer)

    def _send(self, key: bytes, raw: bytes, producer: Producer) -> None:
        value = _loads(raw)
        before, to = self._named.get(key), value["to"]
        self._named[key] = to
        self._rows[0].dirty[key] = raw
        if before is not None and before != to:
            producer.produce(self._hop, _dumps({"key": key.decode(), "row": None}), before)
        producer.produce(self._hop, _dumps({"key": key.decode(), "row": value}), to)

    def _arrived(self, to: bytes, raw: bytes, partition: int, producer: Producer) -> None:
        hop = _loads(raw)
        key, row = hop["key"].encode(), hop["row"]
        mine = self._subscribed.setdefault(to, {})
        self._hops[partition].dirty[to + key] = raw
        if row is None:
            mine.pop(key, None)
            return
        mine[key] = row
        right = self._rights.get(to)
        if right is not None:
            self._result(key, row, right, producer)

    def _result(self, key: bytes, row: Any, right: Any, producer: Producer) -> None:
        """Send a result, but for a row that was overtaken on its way."""
        if row["n"] >= self._newest.get(key, -1):
            self._newest[key] = row["n"]
            producer.produce(self._output, _dumps({"left": row["n"], "right": right["n"]}), key)

    def commit(self, producer: Producer) -> None:
        """Write what changed."""
        for store in (*self._rows, *self._hops):
            store.commit(producer)


def main() -> None:
    options = _parse()
    failed: list[KafkaError] = []
    producer = bare.open_producer(options.bootstrap, failed)
    producer.list_topics(options.output, timeout=20)
    topics = (options.left, options.right)
    to_come = [ends(options.bootstrap, topic) for topic in topics]
    total = sum(count for side in to_come for count in side.values())
    reader = consumer(options.bootstrap, f"{options.output}-bare")
    foreign = options.workload == "foreign_key"
    read = (*topics, f"{options.output}-hop") if foreign else topics
    reader.assign([TopicPartition(topic, p, 0) for topic in read for p in range(PARTITIONS)])
    work = _work(options, topics, to_come, producer)
    span = bare.run(reader, total + options.hops, work, producer)
    if failed:
        raise RuntimeError(f"{len(failed)} deliveries failed, the first: {failed[0]}")
    span.report(total)
    reader.close()


def _work(
    options: argparse.Namespace,
    topics: tuple[str, str],
    to_come: list[dict[int, int]],
    producer: Producer,
) -> bare.Work:
    state, output = Path(options.state), options.output
    if options.workload == "foreign_key":
        whole = ForeignKey(state, topics, output)
        return bare.Work(
            lambda messages: whole.process(messages, producer), lambda: whole.commit(producer)
        )
    joins: list[StreamStream | StreamTable] = [
        StreamStream(state / str(partition), output, partition, options.within)
        if options.workload == "stream_stream"
        else StreamTable(state / str(partition), output, options.workload == "table_table")
        for partition in range(PARTITIONS)
    ]
    in_order = InOrder(topics, to_come)

    def process(messages: list[Any]) -> None:
        for partition, records in in_order.take(messages):
            joins[partition].process(records, producer)

    def commit() -> None:
        for join in joins:
            join.commit(producer)

    return bare.Work(process, commit)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    kinds = ["stream_stream", "stream_table", "table_table", "foreign_key"]
    parser.add_argument("workload", choices=kinds)
    for name in ("bootstrap", "left", "right", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("within", "hops"):
        parser.add_argument(f"--{name}", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
