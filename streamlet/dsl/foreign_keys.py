"""The operators of a join by foreign keys (KIP-213).

    left table ─ Subscribe ──▶ subscriptions ──▶ KeepSubscriptions ─ AnswerSubscriptions ─┐
                                                        store                             ▼
    right table ───────────────────────────────────────── scan ── AnswerChange ──▶ answers
                                                                                     │
    result ◀──────────────────── JoinAnswers, which looks up the left row ◀──────────┘

A row of the left table subscribes to the row of the right one that its foreign key names, in the
task that has it. It is answered at once, and when the right row changes. An answer bears a digest
of the left row as it was when it subscribed: if that has changed meanwhile, another answer is on
its way, and this one is dropped. So is one of a former owner behind those of its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from operator import and_
from typing import Any, Protocol

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl import foreign_wire as wire
from streamlet.dsl.aggregations import keyed, note_times
from streamlet.dsl.answer_fence import AnswerFence
from streamlet.dsl.columns import collect, has_null, nth, with_gaps
from streamlet.dsl.table_joins import TableRows
from streamlet.dsl.window_updates import taken
from streamlet.serdes import ColumnError, Serde
from streamlet.topology.operator import TaskContext

Function = Callable[..., Any]

#: Answers that are sent before other tasks may go on.
PART = 10_000

_ABSENT = object()


@attrs.frozen
class ForeignKey:
    """The foreign key of a row: ``function(value)`` or ``function(key, value)``."""

    function: Function
    takes: int

    def of(self, key: Any, value: Any) -> Any:
        """The foreign key; None of no row, or if it has none."""
        if value is None:
            return None
        return self.function(value) if self.takes == 1 else self.function(key, value)


@attrs.frozen
class Subscribe:
    """Turns changes of the left table into subscriptions, under their foreign keys.

    Args:
        name: of the node.
        context: of the task; its partition is where answers go.
        foreign: the foreign key of a row.
        serdes: of foreign keys, and of the left table's keys.
        digest: tells the left table's values apart (``foreign_wire.digests``).
        left: whether rows without a match are joined too.
    """

    name: str
    context: TaskContext
    foreign: ForeignKey
    serdes: tuple[Serde[Any], Serde[Any]]
    digest: wire.Digests
    left: bool

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails, or gives no key of the right table."""
        assert batch.olds is not None, "a table that is joined sends its old values"
        of_foreign, of_key = self.serdes
        news, error = self._foreign_keys(batch.keys, batch.values, of_foreign, None)
        befores, error = self._foreign_keys(batch.keys, batch.olds[: len(news)], of_foreign, error)
        found, failure = collect(self.digest(batch.values[: len(befores)]), len(befores))
        keys, error = _encoded(of_key, batch.keys[: len(found)], failure or error)
        records: list[int] = []
        foreign: list[bytes | None] = []
        packed: list[bytes] = []
        partition, dropped = wire.partition_bytes(self.context.task.partition), 0
        for index, (key, digest, new, old) in enumerate(
            zip(keys, found, news, befores, strict=False)
        ):
            if new is not None and (old is None or old == new) and not self.left:
                records.append(index)
                foreign.append(new)
                what = wire.SUBSCRIBE_IF_THERE
                packed.append(wire.subscription(what, digest, key, partition))
                continue
            there, was = digest is not None, batch.olds[index] is not None
            for to, what in self._instructions(there, was, new, old):
                records.append(index)
                foreign.append(to)
                packed.append(wire.subscription(what, digest, key, partition))
            dropped += not self.left and there and new is None
        if dropped:
            self.context.dropped(self.name, dropped)
        out = attrs.evolve(taken(batch, records), keys=foreign, values=packed, olds=None)
        if error is not None:
            raise OperatorFailed(len(keys), out) from error
        return out

    def _instructions(
        self, there: bool, was: bool, new: bytes | None, old: bytes | None
    ) -> list[tuple[bytes | None, int]]:
        """Foreign keys with what is asked of them, by Kafka Streams' rules.

        ``there`` and ``was`` tell whether there is a row now, and was one before.
        """
        moved = old is not None and old != new
        if self.left:
            away = [(old, wire.UNSUBSCRIBE)] if moved else []
            return [*away, (new, wire.SUBSCRIBE)] if there or was else []
        if new is None:
            return [(old, wire.UNSUBSCRIBE_AND_ANSWER)] if moved else []
        if moved:
            return [(old, wire.UNSUBSCRIBE), (new, wire.SUBSCRIBE)]
        return [(new, wire.SUBSCRIBE_IF_THERE)]

    def _foreign_keys(
        self, keys: list[Any], values: list[Any], serde: Serde[Any], error: BaseException | None
    ) -> tuple[list[bytes | None], BaseException | None]:
        found, failure = collect(map(self.foreign.of, keys, values), len(values))
        return _encoded(serde, found, failure or error)


@attrs.frozen
class KeepSubscriptions:
    """Puts subscriptions into their store and hands them on; some take one out.

    Args:
        store: of subscriptions.
        foreign: serde of foreign keys.
    """

    store: Any
    foreign: Serde[Any]

    def process(self, batch: Batch) -> Batch:
        """The subscriptions, unpacked."""
        cache = self.store.cache
        found = list(map(wire.subscribed, batch.values))
        ckeys: list[bytes] = []
        times: list[int] = []
        for foreign, (instruction, digest, key, partition), time in zip(
            self.foreign.encode_column(batch.keys), found, batch.timestamps, strict=True
        ):
            if foreign is None:
                continue
            stays = instruction in (wire.SUBSCRIBE_IF_THERE, wire.SUBSCRIBE)
            ckeys.append(ckey := wire.row_key(foreign, key))
            cache[ckey] = wire.row_of(digest, partition) if stays and digest is not None else None
            times.append(time)
        note_times(self.store, ckeys, times)
        return batch.with_values(found)


@attrs.frozen
class AnswerSubscriptions:
    """Answers subscriptions with the right row, as it is now.

    Args:
        context: of the task, which is the source of the answers.
        rows: of the right table.
        value: serde of its values.
    """

    context: TaskContext
    rows: TableRows
    value: Serde[Any]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a view of the right table fails."""
        present = [key for key in batch.keys if key is not None]
        ckeys = with_gaps(batch.keys, self.rows.store.ckeys(present))
        known, error = self._rows(batch, ckeys)
        out = _Answers()
        source = wire.source_of(self.context.task.partition, self.context.epoch)
        columns = batch.values, ckeys, batch.timestamps
        for index, ((instruction, digest, key, partition), ckey, time) in enumerate(
            zip(*columns, strict=True)
        ):
            if instruction == wire.UNSUBSCRIBE:
                continue
            found = known.get(ckey)
            if found is None:
                raise OperatorFailed(index, out.batch(batch)) from error
            sent, row_time = found
            if sent is None and instruction == wire.SUBSCRIBE_IF_THERE:
                continue
            if instruction == wire.UNSUBSCRIBE_AND_ANSWER:
                sent = None
            raw = wire.answer(partition, source, digest, sent)
            out.add(index, key, raw, max(time, row_time))
        return out.batch(batch)

    def _rows(
        self, batch: Batch, ckeys: list[Any]
    ) -> tuple[dict[Any, tuple[bytes | None, int]], BaseException | None]:
        """The right row of each foreign key that is asked for, in bytes, and its time.

        Each is written once, however many subscriptions there are. Up to one that cannot be shown
        or written, and its failure.
        """
        triples = zip(ckeys, batch.keys, batch.values, strict=True)
        asked = {ckey: key for ckey, key, one in triples if one[0] != wire.UNSUBSCRIBE}
        none = asked.pop(None, _ABSENT)
        rows, times, error = self.rows.rows(list(asked.values()), list(asked))
        raws, error = _encoded(self.value, rows, error)
        known = dict(zip(asked, zip(raws, times, strict=False), strict=False))
        if none is not _ABSENT:
            known[None] = None, -1
        return known, error


@attrs.frozen
class AnswerChange:
    """Tells all rows that have subscribed to a right row what it is now.

    Args:
        context: of the task, which is the source of the answers.
        store: of subscriptions.
        foreign: serde of foreign keys.
        value: serde of the right table's values.
    """

    context: TaskContext
    store: Any
    foreign: Serde[Any]
    value: Serde[Any]

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """Raises ``OperatorFailed`` when a value cannot be encoded."""
        out = _Answers()
        source = wire.source_of(self.context.task.partition, self.context.epoch)
        columns = self.foreign.encode_column(batch.keys), batch.values, batch.timestamps
        for index, (foreign, value, time) in enumerate(zip(*columns, strict=True)):
            start = wire.row_key(foreign or b"")
            sent: bytes | None = None
            for number, (key, row) in enumerate(self.store.prefix(start)):
                if value is not None and number == 0:
                    try:
                        sent = self.value.encode(value)
                    except KeyboardInterrupt:
                        raise
                    except BaseException as failure:  # a serde of the user's
                        raise OperatorFailed(index, out.batch(batch)) from failure
                digest, partition = wire.parts_of_row(row)
                raw = wire.answer(partition, source, digest, sent)
                out.add(index, key[len(start) :], raw, time)
                if len(out.keys) >= PART:
                    yield out.batch(batch)
                    out = _Answers()
        yield out.batch(batch)


class RowsBefore(Protocol):
    """Rows of the left table as they were before, to which answers may still come."""

    def fitted(
        self,
        ckeys: list[Any],
        rows: list[Any],
        digests: list[bytes | None],
        kept: list[bool],
    ) -> list[Any]:
        """The rows for answers with these digests.

        ``kept`` tells which answers are to the ``rows``, and afterwards, which are to the result.
        """
        ...


@attrs.frozen
class JoinAnswers:
    """Joins answers with the left rows that asked, and drops those that come too late.

    Args:
        name: of the node.
        context: counts what is dropped.
        rows: of the left table.
        digest: tells its values apart, as that of ``Subscribe``.
        value: serde of the right table's values.
        joiner: ``(left, right)``, with the key before them, or with both keys.
        takes: how many of these it takes.
        foreign: the foreign key of a row.
        left: whether rows without a match are joined too.
        before: rows to which answers may still come; None: to those of the table alone.
    """

    name: str
    context: TaskContext
    rows: TableRows
    digest: wire.Digests
    value: Serde[Any]
    joiner: Function
    takes: int
    foreign: ForeignKey
    left: bool
    before: RowsBefore | None = None
    _fence: AnswerFence = attrs.field(factory=AnswerFence, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the joiner or a view of the left table fails."""
        batch, ckeys, error = keyed(self.rows.store, batch)
        rows, _, failure = self.rows.rows(batch.keys, ckeys)
        error = failure or error
        mine, failure = collect(self.digest(rows), len(rows))
        error = failure or error
        found, failure = collect(map(wire.answered, batch.values[: len(mine)]), len(mine))
        error = failure or error
        kept = [digest == own for (_, digest, _), own in zip(found, mine, strict=False)]
        if self.before is not None:
            rows = self.before.fitted(ckeys, rows, [digest for _, digest, _ in found], kept)
        passing = self._fence.passing([source for source, _, _ in found], batch.offsets)
        if passing is not None:
            kept = list(map(and_, kept, passing))
        sent = [raw for (_, _, raw), fresh in zip(found, kept, strict=True) if fresh]
        done = len(kept)
        part = batch if all(kept) and done == len(batch) else batch.select(kept)
        rows = rows if len(part) == len(rows) else list(compress(rows, kept))
        out, failure = self._joined(part.keys, rows, sent)
        if failure is not None:
            error, done = failure, nth(kept, len(out))
            part = part.slice(0, len(out))
        if len(out) < done:
            self.context.dropped(self.name, done - len(out))
        if error is not None:
            raise OperatorFailed(done, part.with_values(out)) from error
        return part.with_values(out)

    def _joined(
        self, keys: list[Any], rows: list[Any], sent: list[bytes | None]
    ) -> tuple[list[Any], BaseException | None]:
        """The results for left rows and the right ones that were sent."""
        try:
            others, error = self.value.decode_column(sent), None
        except ColumnError as failed:
            others, error = failed.done, failed.cause
        count = len(others)
        if self.takes == 2 and not (has_null(others) or has_null(rows)):
            results: Iterator[Any] = map(self.joiner, rows, others)
        else:
            results = map(self._result, keys, rows, others)
        out, failure = collect(results, count)
        return out, failure or error

    def _result(self, key: Any, row: Any, other: Any) -> Any:
        if row is None or (other is None and not self.left):
            return None
        if self.takes == 2:
            return self.joiner(row, other)
        if self.takes == 3:
            return self.joiner(key, row, other)
        return self.joiner(key, self.foreign.of(key, row), row, other)


@attrs.frozen
class _Answers:
    """Answers, each with the index of the record that caused it."""

    records: list[int] = attrs.field(factory=list)
    keys: list[bytes] = attrs.field(factory=list)
    values: list[bytes] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)

    def add(self, index: int, key: bytes, value: bytes, time: int) -> None:
        self.records.append(index)
        self.keys.append(key)
        self.values.append(value)
        self.times.append(time)

    def batch(self, cause: Batch) -> Batch:
        """They as a batch, with the places and headers of the records that caused them."""
        return attrs.evolve(
            taken(cause, self.records),
            keys=self.keys,
            values=self.values,
            timestamps=self.times,
            olds=None,
        )


def _encoded(
    serde: Serde[Any], column: list[Any], error: BaseException | None
) -> tuple[list[Any], BaseException | None]:
    """The bytes of a column as far as it can be encoded, and what failed first."""
    try:
        return serde.encode_column(column), error
    except ColumnError as failed:
        return failed.done, failed.cause
