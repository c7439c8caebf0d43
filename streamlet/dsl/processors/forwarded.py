"""The records that a processor forwards, in columns, and the record that it is called with."""

from __future__ import annotations

from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.operators.copies import Own
from streamlet.dsl.processors.record import Record, check_record
from streamlet.errors import NotFoundError, StreamletError
from streamlet.serdes.copies import own
from streamlet.types import is_time
from streamlet.user_code import listed, shown


@attrs.define
class ForwardedColumns:
    """Forwarded records; ``offsets`` are those of the records that they stem from."""

    offsets: list[int] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    timestamps: list[int] = attrs.field(factory=list)
    headers: list[Any] = attrs.field(factory=list)
    children: list[str | None] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def cut(self, length: int) -> None:
        """Forget all but so many."""
        for column in attrs.astuple(self, recurse=False):
            del column[length:]


class Forwarding:
    """Takes what one processor forwards.

    Args:
        name: of its node.
        children: names of the children that records may be forwarded to.
        fixed_key: whether the key must stay that of the record.
        headers: whether records may have headers, as everywhere but on Spark.
        own_key: makes copies of keys, for users' code; None: they cannot change.
    """

    def __init__(
        self, name: str, children: set[str], fixed_key: bool, headers: bool, own_key: Own
    ) -> None:
        self._name, self._children, self._fixed_key = name, children, fixed_key
        self._headers, self.own_key = headers, own_key
        self._columns = ForwardedColumns()
        #: The record of the call as it was read; None in a punctuator.
        self.record: Record[Any, Any] | None = None
        #: The offset that results are ascribed to; None: nothing may be forwarded now.
        self.offset: int | None = None

    def __len__(self) -> int:
        return len(self._columns)

    def given(self, record: Record[Any, Any]) -> Record[Any, Any]:
        """The record of a call, as users' code gets it: it may change the key that it has."""
        return record if self.own_key is None else record.with_key(self.own_key(record.key))

    def forward(self, record: Record[Any, Any], to: str | None = None) -> None:
        """Take a copy of a record for all children, or for the one of a name."""
        if type(record) is not Record:
            raise TypeError(f"expected a streamlet.Record, got {shown(record)}")
        if self.offset is None:
            raise StreamletError(
                f"{self._name}: only process() and punctuators can forward records"
            )
        if to is not None and to not in self._children:
            known = listed(sorted(self._children)) or "none"
            raise NotFoundError(f"{self._name} has no child {shown(to)}; child(name) made {known}")
        if self._fixed_key:
            self._check_key(record)
        if record.headers != () or not is_time(record.timestamp):
            check_record(record)
            if record.headers and not self._headers:
                raise StreamletError(
                    f"{self._name}: headers are neither read nor written on Spark; "
                    "--engine native can"
                )
        columns = self._columns
        columns.offsets.append(self.offset)
        kept = self.record if self._fixed_key and self.record is not None else record
        columns.keys.append(own(kept.key))
        columns.values.append(own(record.value))
        columns.timestamps.append(record.timestamp)
        columns.headers.append(list(record.headers) or None)
        columns.children.append(to)

    def _check_key(self, record: Record[Any, Any]) -> None:
        if self.record is None:
            raise StreamletError(
                f"{self._name}: process_values() forwards with a record only; process() can do "
                "so in punctuators and timers"
            )
        given, key = record.key, self.record.key
        if given is not key and (type(given) is not type(key) or given != key):
            raise ValueError(
                f"process_values() keeps the key {shown(key)}, but {shown(given)} was forwarded; "
                "process() can change it"
            )

    def cut(self, length: int) -> None:
        """Drop the forwarded records after the first ``length``."""
        if length < len(self._columns):
            self._columns.cut(length)

    def take(self, given: Batch) -> Batch:
        """The records forwarded since the last call; ``given`` says where they were read."""
        columns, self._columns = self._columns, ForwardedColumns()
        return attrs.evolve(
            given,
            offsets=columns.offsets,
            keys=columns.keys,
            values=columns.values,
            timestamps=columns.timestamps,
            headers=columns.headers if any(columns.headers) else None,
            olds=columns.children if self._children else None,
        )
