"""The bound on what waits of an input partition: by number, and by memory."""

from __future__ import annotations

import attrs


@attrs.define
class InputBound:
    """Bounds what a worker has read ahead, by numbers of records.

    Args:
        most_records: ``buffered.records.per.partition``.
        max_bytes: ``input.buffer.max.bytes``, shared equally by the partitions that are read.
    """

    most_records: int
    max_bytes: int
    #: Bytes of a record, by topic, as in the batch read last.
    _sizes: dict[str, int] = attrs.field(factory=dict, init=False)

    def read(self, topic: str, record_bytes: int) -> None:
        """Take the mean size of the records of a batch."""
        self._sizes[topic] = record_bytes

    def most(self, topic: str, partitions: int) -> int:
        """The number of records that may wait of each of so many partitions; at least one."""
        size = self._sizes.get(topic)
        if not size:
            return self.most_records
        return max(1, min(self.most_records, self.max_bytes // max(partitions, 1) // size))

    def bytes_of(self, topic: str, records: int) -> int:
        """About how much memory records of a topic take."""
        return records * self._sizes.get(topic, 0)
