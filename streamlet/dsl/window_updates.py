"""Updates of windows by a batch, collected record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.uses import TableUse


@attrs.define
class WindowUpdates:
    """Updates in columns; ``records`` is the index of each one's record in the batch."""

    records: list[int] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    olds: list[Any] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)

    def add(self, record: int, key: Any, value: Any, old: Any, time: int) -> None:
        """Append one."""
        self.records.append(record)
        self.keys.append(key)
        self.values.append(value)
        self.olds.append(old)
        self.times.append(time)

    def batch(self, given: Batch, use: TableUse) -> Batch:
        """The updates as a batch, each with the offset and headers of its record."""
        return attrs.evolve(
            taken(given, self.records),
            keys=self.keys,
            values=self.values,
            timestamps=self.times,
            olds=self.olds if use.olds else None,
        )


def taken(batch: Batch, records: Sequence[int]) -> Batch:
    """The records at these indexes, which may repeat."""

    def column(values: Sequence[Any]) -> list[Any]:
        return list(map(values.__getitem__, records))

    return attrs.evolve(
        batch,
        offsets=column(batch.offsets),
        keys=column(batch.keys),
        values=column(batch.values),
        timestamps=column(batch.timestamps),
        headers=None if batch.headers is None else column(batch.headers),
    )
