"""Results of a batch in columns, each with the index of the record that caused it."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.batch import Batch


@attrs.define
class ResultColumns:
    """Results in columns; ``records`` is the index of each one's record in its batch.

    ``olds`` are the previous values of a table's rows, where these are added with ``change``.
    ``headers`` are those of results that have their own; None: each has those of its record.
    """

    records: list[int] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)
    olds: list[Any] = attrs.field(factory=list)
    headers: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, record: int, key: Any, value: Any, time: int) -> None:
        """Append one, with its time, ms."""
        self.records.append(record)
        self.keys.append(key)
        self.values.append(value)
        self.times.append(time)

    def change(self, record: int, key: Any, value: Any, old: Any, time: int) -> None:
        """Append one with its previous value, which then all have."""
        self.records.append(record)
        self.keys.append(key)
        self.values.append(value)
        self.olds.append(old)
        self.times.append(time)

    def extend(self, record: int, keys: list[Any], values: list[Any], times: list[int]) -> None:
        """Append several results of one record."""
        self.records += [record] * len(keys)
        self.keys += keys
        self.values += values
        self.times += times

    def cut(self, count: int) -> None:
        """Remove all but the first ``count``, none of which has headers of its own."""
        for column in (self.records, self.keys, self.values, self.times, self.olds):
            del column[count:]

    def batch(self, given: Batch, *, olds: bool = False) -> Batch:
        """The results as a batch, each with the offset and headers of its record in ``given``.

        With ``olds`` it has the column of previous values; None for results that came without.
        """
        headers = self.headers
        if headers is not None:
            headers = headers if any(headers) else None
        elif given.headers is not None:
            headers = list(map(given.headers.__getitem__, self.records))
        return Batch(
            given.topic,
            given.partition,
            list(map(given.offsets.__getitem__, self.records)),
            self.keys,
            self.values,
            self.times,
            headers,
            (self.olds or [None] * len(self.keys)) if olds else None,
        )

    def take(self, given: Batch, *, olds: bool = False) -> Batch:
        """Like ``batch``; there are no results left here."""
        batch = self.batch(given, olds=olds)
        self.records, self.keys, self.values, self.times, self.olds = [], [], [], [], []
        self.headers = None if self.headers is None else []
        return batch
