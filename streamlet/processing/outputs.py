"""Outputs of a task: encoded records in columns, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from streamlet.kafka.ports import Headers, OutgoingRecords
from streamlet.types import TopicPartition

#: A run of records that stem from one partition: how many, its name, their offsets there.
Origin: TypeAlias = tuple[int, TopicPartition, Sequence[int]]


@attrs.define(slots=True)
class Output(OutgoingRecords):
    """Encoded records for one topic, in columns; without partitions the key decides (murmur2)."""

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    partitions: list[int] | None = None
    headers: list[Headers | None] | None = None
    #: The origins of all records, run by run.
    origins: Iterable[Origin] = attrs.field(factory=list)
    #: Whether the lists are this output's own and may grow.
    owned: bool = False
    #: Whether the topic was chosen for these records.
    by_record: bool = False

    def extend(self, more: Output) -> None:
        """Append another output of the same shape."""
        if not self.owned:
            self.keys, self.values = list(self.keys), list(self.values)
            self.timestamps = list(self.timestamps)
            self.partitions = None if self.partitions is None else list(self.partitions)
            self.headers = None if self.headers is None else list(self.headers)
            self.origins = list(self.origins)
            self.owned = True
        self.keys += more.keys
        self.values += more.values
        self.timestamps += more.timestamps
        self.origins = _joined(self.origins, more.origins)
        if self.partitions is not None and more.partitions is not None:
            self.partitions += more.partitions
        if self.headers is not None and more.headers is not None:
            self.headers += more.headers

    def origin(self, index: int) -> tuple[TopicPartition, int]:
        """Partition and offset of the input record that led to the record at ``index``."""
        for count, partition, offsets in self.origins:
            if index < count:
                return partition, offsets[index]
            index -= count
        raise AssertionError(f"no origin for record {index} to {self.topic}")

    def slice(self, start: int, stop: int) -> Output:
        """Records ``start`` to ``stop`` (exclusive)."""
        origins: list[Origin] = []
        begin = 0
        for count, partition, offsets in self.origins:
            run = offsets[max(0, start - begin) : max(0, stop - begin)]
            if run:
                origins.append((len(run), partition, run))
            begin += count
        return attrs.evolve(
            self,
            keys=self.keys[start:stop],
            values=self.values[start:stop],
            timestamps=self.timestamps[start:stop],
            partitions=None if self.partitions is None else self.partitions[start:stop],
            headers=None if self.headers is None else self.headers[start:stop],
            origins=origins,
        )

    def behind(self, index: int) -> Output:
        """The records behind the one at ``index``."""
        return self.slice(index + 1, len(self.keys))

    def same_shape(self, other: Output) -> bool:
        """True if ``extend`` would keep every column whole."""
        return (
            self.topic == other.topic
            and self.by_record == other.by_record
            and (self.partitions is None) == (other.partitions is None)
            and (self.headers is None) == (other.headers is None)
        )


def _joined(origins: Iterable[Origin], more: Iterable[Origin]) -> list[Origin]:
    """Both, in the list of the first if it is one."""
    joined: list[Origin] = origins if isinstance(origins, list) else list(origins)
    joined.extend(more)
    return joined
