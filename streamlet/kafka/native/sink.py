"""The producers over the extension: sinks that hand over columns; all else is done as there."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from streamlet.coordinator.messages import OffsetCommit
from streamlet.kafka.native.producer import CommitMember, NativeProducer
from streamlet.kafka.ports import OutgoingRecords
from streamlet.kafka.queue_bound import mean_size
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.transactions import TransactionalSink


class NativeSink(KafkaSink):
    """A ``KafkaSink`` with a call per column in place of one per record."""

    def _client(self, config: dict[str, Any]) -> Any:
        return NativeProducer(config)

    def _queue(self, records: OutgoingRecords) -> None:
        keys, values, headers = records.keys, records.values, records.headers
        columns = records.topic, keys, values, records.timestamps, records.partitions, headers
        done, size = 0, mean_size(keys, values, headers)
        while done < len(keys):
            until = done + self._make_room(size, len(keys) - done)
            done, code = self._produce(*columns, done, until)
            if code == KafkaError._QUEUE_FULL:
                self._bound.queued(done - until, (done - until) * size)
                self._await_room()
            elif code:
                raise self._refusal(records.topic, done, KafkaError(code))


class NativeTransactionalSink(NativeSink, TransactionalSink):
    """A ``TransactionalSink`` with a call per column in place of one per record."""

    def _membership(self, request: OffsetCommit) -> Any:
        return CommitMember(
            request.group, request.generation, request.member_id, request.instance_id
        )
