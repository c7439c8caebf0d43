"""A producer of the extension, with the calls of confluent-kafka's that ``KafkaSink`` makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from confluent_kafka import TopicPartition as RawPartition

from streamlet.kafka.native.events import opened_client

_PRODUCER = 0


@attrs.frozen
class CommitMember:
    """The membership in a group that positions in a transaction are committed under."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


class NativeProducer:
    """A producer that takes records in columns.

    Args:
        config: settings, as confluent-kafka takes them.

    Raises:
        KafkaException: a setting is refused.
        TypeError: what is to be called cannot be.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._client = opened_client(_PRODUCER, config)
        #: Queues records, ``(topic, keys, values, times, partitions, headers, first, end)``: those
        #: from one place up to another. Gives the place of the first that is not queued, and why,
        #: as a code; 0: all are.
        self.produce: Callable[..., tuple[int, int]] = self._client.produce

    def __len__(self) -> int:
        return int(self._client.queued())

    def list_topics(self, topic: str, timeout: float) -> None:
        """Ask where a topic lies, which the client remembers."""
        self._client.look_up(topic, _ms(timeout))

    def poll(self, timeout: float) -> int:
        """Hear what there is, waiting for it so many seconds."""
        return int(self._client.poll(_ms(timeout)))

    def flush(self, timeout: float) -> int:
        """Wait so many seconds for all to be delivered; how many are left."""
        return int(self._client.flush(_ms(timeout)))

    def purge(self, blocking: bool = True) -> None:
        """Drop what is queued or on its way; from any thread."""
        self._client.purge(blocking)

    def init_transactions(self, timeout: float) -> None:
        """Have the brokers end what was open before, and give an epoch."""
        self._client.init_transactions(_ms(timeout))

    def begin_transaction(self) -> None:
        """Begin one."""
        self._client.begin_transaction()

    def send_offsets_to_transaction(
        self, positions: Sequence[RawPartition], member: CommitMember, timeout: float
    ) -> None:
        """Add positions, with the texts beside them, to the transaction."""
        offsets = tuple((p.topic, p.partition, p.offset, p.metadata or "") for p in positions)
        self._client.send_offsets(offsets, *attrs.astuple(member), _ms(timeout))

    def commit_transaction(self, timeout: float) -> None:
        """Commit it."""
        self._client.commit_transaction(_ms(timeout))

    def abort_transaction(self, timeout: float) -> None:
        """Abort it."""
        self._client.abort_transaction(_ms(timeout))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
