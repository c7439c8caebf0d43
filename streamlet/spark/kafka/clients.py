"""Our own clients of Kafka in Spark's processes: ranges are read, outputs written.

A client outlives the Spark task that it is made for: the next task of the process takes it. While
one is in use it is not there for others, so whatever goes wrong, the next to ask gets a new one.

Processes with which the driver plans get the settings and have no client: the clients' modules are
loaded by those that make one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.errors import BrokerError, TimedOutError
from streamlet.spark.kafka.ranges import Range

if TYPE_CHECKING:
    from streamlet.kafka.ports import PartitionBatch
    from streamlet.kafka.sink import KafkaSink
    from streamlet.kafka.source import KafkaSource
    from streamlet.processing.outputs import Output

#: What is fetched behind a range's end is fetched in vain: another worker may read on from there.
_CONSUMER = {"queued.max.messages.kbytes": 4_096}

_FLUSH_MS = 60_000
#: How long records of a range that are there may not come, ms.
_SILENT_MS = 60_000

#: Clients that are not in use, by their settings.
_SOURCES: dict[str, KafkaSource] = {}
_SINKS: dict[str, KafkaSink] = {}


@attrs.frozen
class Clients:
    """The settings to reach Kafka: librdkafka's, for each kind of client."""

    bootstrap_servers: str
    consumer: Mapping[str, Any] = attrs.field(factory=dict)
    producer: Mapping[str, Any] = attrs.field(factory=dict)
    admin: Mapping[str, Any] = attrs.field(factory=dict)

    def records(self, ranges: Sequence[Range]) -> Iterator[PartitionBatch]:
        """The records of ranges, all of them.

        Raises:
            BrokerError: they cannot be read.
        """
        from streamlet.clock import SystemClock
        from streamlet.kafka.client import KafkaSource
        from streamlet.kafka.reading import read_until

        key = self.bootstrap_servers + json.dumps(dict(self.consumer))
        source = _SOURCES.pop(key, None)
        if source is None:
            source = KafkaSource(self.bootstrap_servers, {**_CONSUMER, **self.consumer})
        ends = {one.where: one.end for one in ranges}
        begins = {one.where: one.begin for one in ranges}
        clock = SystemClock()
        try:
            yield from read_until(source, ends, begins=begins, clock=clock, silent_ms=_SILENT_MS)
        except TimedOutError as error:
            raise BrokerError(str(error)) from error
        _SOURCES[key] = source


class Outbox:
    """Outputs of one Spark task on their way to Kafka; it may end when ``flush`` has.

    Args:
        clients: how to reach Kafka.
    """

    def __init__(self, clients: Clients) -> None:
        self._bootstrap, self._producer = clients.bootstrap_servers, dict(clients.producer)
        self._key = self._bootstrap + json.dumps(self._producer)
        self._sink: KafkaSink | None = None

    def send(self, output: Output) -> None:
        """Send the records of an output."""
        if self._sink is None:
            self._sink = self._taken()
        self._sink.send(output)

    def send_packed(self, topic: str, packed: bytes) -> None:
        """Send records that ``blobs.pack`` has packed."""
        from streamlet.processing.outputs import Output
        from streamlet.spark.rows.blobs import unpack

        found = unpack(packed)
        columns = found.keys, found.values, found.timestamps, found.partitions, found.headers
        self.send(Output(topic, *columns))

    def flush(self) -> None:
        """Wait until all of it is delivered.

        Raises:
            DeliveryError: something is not.
        """
        if self._sink is not None:
            self._sink.flush(_FLUSH_MS)
            _SINKS[self._key] = self._sink
            self._sink = None

    def _taken(self) -> KafkaSink:
        from streamlet.kafka.client import KafkaSink

        return _SINKS.pop(self._key, None) or KafkaSink(self._bootstrap, self._producer)
