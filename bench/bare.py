"""The bare loop: the same work without a framework, the reference of every ratio.

Written the plain way, with what anyone who measures would find out: a short fetch back-off, an
idempotent producer whose failed deliveries are noticed, counts in a dict in front of RocksDB, and
the last count of each word written to changelog and store at the commit of each second. It bounds
no memory, restores nothing and survives no crash: a ceiling, not a design.

``python -m bench.bare wordcount|on-commit|passthrough|window --bootstrap … --source … --output …
--state …`` is one measured run. It commits every ``--commit`` ms, with ``--transactions`` by
Kafka's: outputs, changelog and positions together. The records before ``--preload`` are not
measured. Windows need ``--size`` and ``--grace``, ms; ``--partitions`` are those of the input.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import orjson
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from bench.bare_windows import WindowCounts, count_windows
from bench.broker import PARTITIONS, consumer, ends
from bench.span import Span

_COMMIT_MS = 1_000
_BATCH = 10_000
_WAIT_S = 0.05


class Counts:
    """Counts of one partition: all in a dict, those changed since the last commit in another.

    Args:
        folder: of the store.
        output: the topic that commits write the changed counts to; None: they do not.
    """

    def __init__(self, folder: Path, output: str | None) -> None:
        self.output = output
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self.store = Rdict(str(folder), options)
        self.cache: dict[bytes, int] = {}
        self.dirty: dict[bytes, int] = {}
        self._write = WriteOptions()
        self._write.disable_wal = True  # type: ignore[method-assign, assignment]

    def commit(self, producer: Producer, changelog: str, partition: int) -> None:
        """Write what changed to the changelog and to the store, and to an output."""
        if not self.dirty:
            return
        batch = WriteBatch(raw_mode=True)
        for word, count in self.dirty.items():
            encoded = b"%d" % count
            producer.produce(changelog, encoded, word, partition)
            batch.put(word, encoded)
            if self.output is not None:
                update = {"word": word.decode(), "count": count}
                producer.produce(self.output, orjson.dumps(update), word)
        self.store.write(batch, self._write)
        self.dirty.clear()


@attrs.frozen
class Work:
    """The parts of a workload: the work on a poll's records, and what a commit writes."""

    process: Callable[[list[Any]], None]
    flush_state: Callable[[], None]


def count_words(messages: list[Any], producer: Producer, output: str, counts: list[Counts]) -> None:
    """One update per record."""
    produce, loads, dumps = producer.produce, orjson.loads, orjson.dumps
    for message in messages:
        word, partition = message.key(), message.partition()
        value = loads(message.value())
        mine = counts[partition]
        count = mine.cache.get(word)
        if count is None:
            stored = mine.store.get(word)
            count = 0 if stored is None else int(stored)
        count += 1
        mine.cache[word] = count
        mine.dirty[word] = count
        produce(output, dumps({"word": value["word"], "count": count}), word)


def count_for_commit(messages: list[Any], counts: list[Counts]) -> None:
    """No updates: the commit sends them."""
    loads = orjson.loads
    for message in messages:
        word, mine = message.key(), counts[message.partition()]
        loads(message.value())
        count = mine.cache.get(word)
        if count is None:
            stored = mine.store.get(word)
            count = 0 if stored is None else int(stored)
        count += 1
        mine.cache[word] = count
        mine.dirty[word] = count


def pass_through(messages: list[Any], producer: Producer, output: str) -> None:
    """Copy bytes."""
    produce = producer.produce
    for message in messages:
        produce(output, message.value(), message.key())


def commit_positions(reader: Consumer, producer: Producer) -> None:
    """Commit what was read, once what came of it is delivered."""
    if producer.flush(60):
        raise RuntimeError("outputs were not delivered within a minute")
    reader.commit(asynchronous=False)


def commit_transaction(reader: Consumer, producer: Producer) -> None:
    """Commit what was read with what came of it, and begin the next transaction."""
    positions = reader.position(reader.assignment())
    producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata())
    producer.commit_transaction()
    producer.begin_transaction()


def run(
    reader: Consumer,
    total: int,
    work: Work,
    producer: Producer,
    preload: int = 0,
    commit_ms: int = _COMMIT_MS,
    end: Callable[[Consumer, Producer], None] = commit_positions,
) -> Span:
    """Read to the end, with a commit so often, which ``end`` ends; begins behind the preload."""

    def commit() -> None:
        work.flush_state()
        end(reader, producer)
        span.end()

    span, seen, committed_at = Span(), 0, 0.0
    while seen < total:
        messages = reader.consume(_BATCH, _WAIT_S)
        if not messages:
            continue
        if not seen:
            committed_at = time.monotonic()
        if seen <= preload:
            span.start(seen)
        work.process(messages)
        producer.poll(0)
        seen += len(messages)
        if time.monotonic() - committed_at >= commit_ms / 1_000 and seen < total:
            commit()
            committed_at = time.monotonic()
    commit()
    return span


def main() -> None:
    options = _parse()
    failed: list[KafkaError] = []
    own_id = f"{options.output}-bare" if options.transactions else None
    producer = open_producer(options.bootstrap, failed, transactional_id=own_id)
    producer.list_topics(options.output, timeout=20)
    if options.transactions:
        producer.init_transactions()
        producer.begin_transaction()
    total = sum(ends(options.bootstrap, options.source, options.partitions).values())
    reader = consumer(options.bootstrap, f"{options.output}-bare")
    reader.assign([TopicPartition(options.source, p, 0) for p in range(options.partitions)])
    work = _work(options, producer)
    end = commit_transaction if options.transactions else commit_positions
    span = run(reader, total, work, producer, options.preload, options.commit, end)
    if failed:
        raise RuntimeError(f"{len(failed)} deliveries failed, the first: {failed[0]}")
    span.report(total)
    reader.close()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["wordcount", "on-commit", "passthrough", "window"])
    for name in ("bootstrap", "source", "output", "state"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("preload", "size", "grace"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--commit", type=int, default=_COMMIT_MS)
    parser.add_argument("--transactions", action="store_true")
    return parser.parse_args()


def _work(options: argparse.Namespace, producer: Producer) -> Work:
    to: dict[str, Any] = {"producer": producer, "output": options.output}
    folders = [Path(options.state) / str(partition) for partition in range(options.partitions)]
    stores: Sequence[Counts | WindowCounts]
    process: Callable[[list[Any]], None]
    if options.workload == "passthrough":
        return Work(partial(pass_through, **to), lambda: None)
    if options.workload == "window":
        times = {"size_ms": options.size, "grace_ms": options.grace}
        stores = windows = [WindowCounts(folder, **times) for folder in folders]
        process = partial(count_windows, **to, counts=windows, **times)
    elif options.workload == "on-commit":
        stores = counts = [Counts(folder, options.output) for folder in folders]
        process = partial(count_for_commit, counts=counts)
    else:
        stores = counts = [Counts(folder, None) for folder in folders]
        process = partial(count_words, **to, counts=counts)

    return Work(process, partial(_commit_all, stores, producer, f"{options.output}-changelog"))


def _commit_all(stores: Sequence[Counts | WindowCounts], producer: Producer, to: str) -> None:
    """Write what changed in the stores to the partitions of a changelog."""
    for partition, mine in enumerate(stores):
        mine.commit(producer, to, partition)


def open_producer(
    bootstrap: str,
    failed: list[KafkaError],
    linger_ms: int = 20,
    transactional_id: str | None = None,
) -> Producer:
    """A producer of a bare loop, which notes failed deliveries."""
    own_id = {} if transactional_id is None else {"transactional.id": transactional_id}
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "partitioner": "murmur2_random",
            "on_delivery": lambda error, message: failed.append(error),
            "delivery.report.only.error": True,
            "log_level": 3,
            **own_id,
        }
    )


if __name__ == "__main__":
    main()
