"""A consumer of the extension, with the calls of confluent-kafka's that ``KafkaSource`` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition as RawPartition

from streamlet.kafka.native.events import opened_client
from streamlet.kafka.poll_bound import HEADER_BYTES, HELD_BYTES, Polled
from streamlet.kafka.ports import PartitionBatch
from streamlet.types import TopicPartition
from streamlet.user_code import text_of

_CONSUMER = 1


class NativeConsumer:
    """A consumer whose records come in columns.

    Args:
        config: settings, as confluent-kafka takes them.

    Raises:
        KafkaException: a setting is refused.
        TypeError: what is to be called cannot be.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._client = opened_client(_CONSUMER, config)

    def list_topics(self, topic: str, timeout: float) -> None:
        """Ask where a topic lies, which the client remembers."""
        self._client.look_up(topic, int(timeout * 1000))

    def incremental_assign(self, partitions: Sequence[RawPartition]) -> None:
        """Read these too, each from its offset."""
        self._client.incremental_assign(_tuples(partitions))

    def incremental_unassign(self, partitions: Sequence[RawPartition]) -> None:
        """Read these no further."""
        self._client.incremental_unassign(_tuples(partitions))

    def pause(self, partitions: Sequence[RawPartition]) -> None:
        """Fetch no more of these."""
        self._client.pause(_tuples(partitions))

    def resume(self, partitions: Sequence[RawPartition]) -> None:
        """Fetch these again."""
        self._client.resume(_tuples(partitions))

    def position(self, partitions: Sequence[RawPartition]) -> Sequence[RawPartition]:
        """The same partitions, with the offset of what comes next; below 0: there is none."""
        offsets = self._client.position(_tuples(partitions))
        for one, offset in zip(partitions, offsets, strict=True):
            one.offset = offset
        return partitions

    def get_watermark_offsets(self, partition: RawPartition, cached: bool) -> tuple[int, int]:
        """The first and the last offset as of the last fetch; below 0: not known."""
        assert cached, "only what is known is asked for"
        low, high = self._client.watermarks(partition.topic, partition.partition)
        return int(low), int(high)

    def columns(self, most: int, timeout_ms: int, idle_ms: int, headers: bool) -> Polled:
        """Up to so many records by partition, and errors; waits as ``RecordSource.poll`` does.

        Headers that were not asked for are never read, and hold nothing.
        """
        waits = int(timeout_ms), int(idle_ms)
        found = self._client.consume(most, *waits, headers, HELD_BYTES, HEADER_BYTES)
        runs, troubles, held, rest = found
        first = {TopicPartition(topic, number): offset for topic, number, offset in rest}
        return Polled([_batch(*run) for run in runs], troubles, held, first)

    def close(self) -> None:
        """Free the client."""
        self._client.close()


def _batch(
    topic: str,
    partition: int,
    first: int,
    offsets: list[int] | None,
    keys: list[bytes | None],
    values: list[bytes | None],
    times: list[int],
    headers: list[Any] | None,
    unreadable: dict[int, UnicodeDecodeError] | None,
    lowest: int,
    highest: int,
) -> PartitionBatch:
    where: Sequence[int] = range(first, first + len(keys)) if offsets is None else offsets
    reasons = None
    if unreadable is not None:
        found = unreadable.items()
        reasons = {offset: f"{type(error).__name__}: {text_of(error)}" for offset, error in found}
        if headers is not None and not any(headers):
            headers = None
    columns = keys, values, times, headers, reasons
    return PartitionBatch(topic, partition, where, *columns, (lowest, highest))


def _tuples(partitions: Sequence[RawPartition]) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, one.offset) for one in partitions]
