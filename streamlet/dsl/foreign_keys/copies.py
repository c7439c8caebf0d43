"""Operators with which rows of a table reach a join by foreign keys as copies (``nodes.Detour``).

    left table ── HeldChanges ─┬─ Subscribe ──▶ subscriptions
                               └─ PackedRows ──▶ copies ──▶ CopiedRows ── store
                                                                            │
    result ◀──────────────── JoinAnswers, which looks up the copy ◀── answers

Such parts run one behind the other over the same batch. All copies of the batch are there when its
first answer comes, so the row that an answer is to may have been replaced already. What is sent of
a row is therefore one change for each batch, and the join knows the copy and the row before it.
Answers to that count until the first one to the copy: where the copy has none, because there is no
right row or no foreign key, they are what tells that the row before has lost its match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.foreign_keys import wire
from streamlet.dsl.operators.columns import collect, converted, finished, first_of, has_null, nth
from streamlet.dsl.operators.hot_store import kept
from streamlet.dsl.rows.sources import TableSource
from streamlet.serdes import Serde
from streamlet.topology.operator import TaskContext


@attrs.define
class HeldChanges:
    """Holds the changes of a table back until a commit, and sends one for each row then.

    It leads from the value before the first one to that of the last one, and has the time of that.

    Args:
        name: of the node.
        context: counts changes that are not of the newest version.
        key: serde of the table's keys.
        value: serde of its values.
    """

    name: str
    context: TaskContext
    key: Serde[Any]
    value: Serde[Any]
    _held: dict[bytes, tuple[Any, Any, Any, int]] = attrs.field(factory=dict, init=False)
    _last: Batch | None = attrs.field(default=None, init=False)

    def process(self, batch: Batch) -> Batch:
        """Hold the changes; raises ``OperatorFailed`` for a value that has no bytes."""
        given, nothing = batch, batch.slice(0, 0)
        batch = _newest(self.name, self.context, batch)
        assert batch.olds is not None, "a table that is joined sends its old values"
        values, error = kept(self.value, batch.values)
        olds = batch.olds[: len(values)]
        if error is not None:
            batch = batch.slice(0, len(values))
        columns = batch.keys, values, olds, batch.timestamps
        encoded = self.key.encode_column(batch.keys)
        for raw, key, value, old, time in zip(encoded, *columns, strict=True):
            assert raw is not None, "rows of a table have keys"
            first = self._held.pop(raw, None)
            self._held[raw] = key, value, old if first is None else first[2], time
        if len(batch):
            self._last = batch.slice(len(batch) - 1, len(batch))
        if error is not None:
            behind = given.behind
            at = len(batch) if behind is None else nth([not one for one in behind], len(batch))
            raise OperatorFailed(at, nothing) from error
        return nothing

    @property
    def holds(self) -> bool:
        """True if rows have changed."""
        return bool(self._held)

    def release(self) -> Batch | None:
        """The change of each row, ascribed to the last record."""
        last = self._last
        if last is None:
            return None
        keys, values, olds, times = map(list, zip(*self._held.values(), strict=True))
        self._held, self._last = {}, None
        offsets = list(last.offsets) * len(keys)
        return Batch(last.topic, last.partition, offsets, keys, values, times, None, olds)


@attrs.frozen
class PackedRows:
    """Writes rows as copies, for the task of the same partition.

    Args:
        name: of the node.
        context: of the task.
        value: serde of the values.
        first: whether copies come before all other records, by a time of 0.
    """

    name: str
    context: TaskContext
    value: Serde[Any]
    first: bool

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a value cannot be encoded."""
        batch = _newest(self.name, self.context, batch)
        raws, error = converted(self.value.encode_column, batch.values)
        partition = wire.partition_bytes(self.context.task.partition)
        copies = [wire.copy_of(partition, raw) for raw in raws]
        times = [0] * len(copies) if self.first else None
        out = first_of(batch, len(copies)).with_values(copies, None, times)
        return finished(out, error, again=False)


@attrs.define
class ReplacedRows:
    """The rows of the left table that copies of the batch have replaced, by cache key."""

    digest: wire.Digests
    _rows: dict[Any, Any] = attrs.field(factory=dict, init=False)

    def note(self, ckeys: list[Any], olds: list[Any]) -> None:
        """Take note of rows that are replaced."""
        for ckey, old in zip(ckeys, olds, strict=True):
            self._rows.setdefault(ckey, old)

    def fitted(
        self,
        ckeys: list[Any],
        rows: list[Any],
        digests: list[bytes | None],
        kept: list[bool],
    ) -> list[Any]:
        """The rows for answers with these digests, as they were before where that is meant.

        ``kept`` tells which answers are to the ``rows``, and afterwards, which are to the result.
        """
        if not self._rows:
            return rows
        found = list(rows)
        for index, (ckey, digest) in enumerate(zip(ckeys, digests, strict=False)):
            if kept[index]:
                self._rows.pop(ckey, None)
            elif ckey in self._rows:
                old = self._rows[ckey]
                if wire.has_value_of(digest, next(self.digest([old]))):
                    found[index], kept[index] = old, True
        return found

    def clear(self) -> None:
        """Forget the rows at the end of the batch."""
        self._rows.clear()


@attrs.frozen
class CopiedRows:
    """Puts copies of rows into their store, and hands them on as changes of a table.

    Args:
        table: puts them.
        replaced: takes note of the rows before; None: no reader needs them.
    """

    table: TableSource
    replaced: ReplacedRows | None = None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a copy cannot be decoded."""
        check_keys(batch, self.process)
        raws, error = collect(map(wire.copied, batch.values), len(batch))
        values, error = converted(self.table.value.decode_column, raws, error)
        out = self.table.process(first_of(batch, len(values)).with_values(values))
        if self.replaced is not None and out.olds is not None:
            self.replaced.note(self.table.store.ckeys(out.keys), out.olds)
        return finished(out, error, again=False)

    @property
    def holds(self) -> bool:
        """False: nothing is sent."""
        return False

    def release(self) -> Batch | None:
        """Forget the rows before, since the batch ends; None: there is no output."""
        if self.replaced is not None:
            self.replaced.clear()
        return None


def check_keys(batch: Batch, process: Callable[[Batch], Batch]) -> None:
    """Fail on the first message without a key, which no join has sent, behind those before it.

    Raises:
        OperatorFailed: there is one.
    """
    if has_null(batch.keys):
        at = next(index for index, key in enumerate(batch.keys) if key is None)
        done = process(batch.slice(0, at))
        failure = ValueError("a message of a foreign-key join has no key")
        raise OperatorFailed(at, done, again=True) from failure


def _newest(name: str, context: TaskContext, batch: Batch) -> Batch:
    """The changes of the newest version of their row; others are counted as dropped."""
    if batch.behind is None:
        return batch
    newest = attrs.evolve(batch.select([not one for one in batch.behind]), behind=None)
    context.dropped(name, len(batch) - len(newest))
    return newest
