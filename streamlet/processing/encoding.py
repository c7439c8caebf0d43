"""Encodes the records of a sink: keys, values, and the partitions that they go to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.errors import SerdeError
from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.lazy_results import refuse_promise
from streamlet.processing.outputs import Output
from streamlet.serdes import ColumnError, Serde
from streamlet.serdes.copies import own_column
from streamlet.topology.nodes import SinkNode
from streamlet.types import TopicPartition
from streamlet.user_code import plain_hint, shown


@attrs.frozen
class SinkEncoder:
    """Makes the records that one sink writes to one topic.

    Args:
        node: the sink.
        count: partitions of the topic; 0: not known.
        dropped: told how many records a partitioner sent to no partition.
        by_record: the topic was chosen for these records.
        as_read: whether the values are as they were read.
    """

    _node: SinkNode
    _count: int
    _dropped: Callable[[int], None]
    _by_record: bool = False
    _as_read: bool = False

    @cached_property
    def _by_key(self) -> KeyPartitioner:
        """Kafka's own choice of partitions, for the sinks that ask for it."""
        return KeyPartitioner(max(self._count, 1), self._node.by_key)

    @cached_property
    def _key(self) -> Serde[Any]:
        """The serde of the keys."""
        key: Serde[Any] = self._node.key
        return key.of_topic(self._node.topic, "key")

    @cached_property
    def _value(self) -> Serde[Any]:
        """The serde of the values; what was read needs no look at its parts."""
        value: Serde[Any] = self._node.value.of_topic(self._node.topic, "value")
        if not self._as_read or value.encode_read is None:
            return value
        return attrs.evolve(value, encode_all=value.encode_read)

    def encode(self, batch: Batch) -> Output:
        """The records as the sink writes them.

        Raises:
            OperatorFailed: one cannot be encoded, or its partitioner fails; ``done`` are those
                before.
        """
        node, partitions = self._node, None
        keys = self._encoded("key", self._key, batch.keys, batch)
        values = self._encoded("value", self._value, batch.values, batch)
        if node.partitioner is not None:
            rows, partitions = self._chosen(batch, keys)
            if rows is not None:
                batch = batch.pick(rows)
                keys, values = [keys[row] for row in rows], [values[row] for row in rows]
        elif node.partitions_of is not None:
            partitions = node.partitions_of(values)
        elif node.chooses_partitions and self._count > 1:
            bases = keys
            if node.by_base:
                window = -node.key.window_bytes
                bases = [None if key is None else key[:window] for key in keys]
            partitions = self._by_key.choose(bases, batch.offsets)
        origin = (len(batch), TopicPartition(batch.topic, batch.partition), batch.offsets)
        return Output(
            node.topic,
            keys,
            values,
            batch.timestamps,
            partitions,
            batch.headers,
            [origin],
            by_record=self._by_record,
        )

    def _encoded(
        self, role: str, serde: Serde[Any], column: list[Any], batch: Batch
    ) -> list[bytes | None]:
        """The bytes of keys or values; a serde that refuses one names it with the topic."""
        try:
            # Keys are written to stores without a look at their fields, so here they are looked at.
            if role == "key" and serde.encode_whole is not None:
                return serde.encode_rows(column)
            return serde.encode_column(column)
        except ColumnError as failed:
            cause: BaseException = failed.cause
            if isinstance(cause, SerdeError):
                cause = SerdeError(f"topic {self._node.topic}, {role}: {cause}")
                cause.__cause__ = failed.cause
            done = batch.slice(0, failed.index)
            raise OperatorFailed(failed.index, done, again=True) from cause

    def _chosen(self, batch: Batch, keys: list[bytes | None]) -> tuple[list[int] | None, list[int]]:
        """Rows and their partitions as the user's partitioner says; rows None: each once."""
        chosen: list[Collection[int]] = []
        try:
            # They are written, and encoded again behind a record that fails: it gets copies.
            pairs = zip(own_column(batch.keys), own_column(batch.values), strict=True)
            for row, (key, value) in enumerate(pairs):
                assert self._node.partitioner is not None
                found = self._node.partitioner(key, value, self._count)
                if found is None:
                    (found,) = self._by_key.choose([keys[row]], [batch.offsets[row]])
                chosen.append(self._checked(found))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            done = batch.slice(0, len(chosen))
            raise OperatorFailed(len(chosen), done, again=True) from error
        partitions = [one for some in chosen for one in some]
        nowhere = chosen.count(())
        if nowhere:
            self._dropped(nowhere)
        if not nowhere and len(partitions) == len(chosen):
            return None, partitions
        return [row for row, some in enumerate(chosen) for _ in some], partitions

    def _checked(self, found: object) -> tuple[int, ...]:
        """The result of a user's partitioner, if there are such partitions."""
        several = sorted(found) if isinstance(found, set | frozenset) else found
        chosen = tuple(several) if isinstance(several, list | tuple | range) else (several,)
        for one in chosen:
            if type(one) is not int or not 0 <= one < max(self._count, 1):
                refuse_promise(one)
                raise ValueError(
                    f"expected a partition, an int from 0 to {self._count - 1}, several of them "
                    f"or None, got {shown(found)}{plain_hint(found) or plain_hint(one)}"
                )
        return chosen
