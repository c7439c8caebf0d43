"""The operators of a join by foreign keys (KIP-213), and those in the task of the left table.

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

from collections.abc import Callable
from itertools import compress
from operator import and_
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.dsl.foreign_keys.answer_fence import AnswerFence
from streamlet.dsl.foreign_keys.copies import ReplacedRows, check_keys
from streamlet.dsl.joins.joined_rows import TableRows
from streamlet.dsl.joins.joiner import Joiner
from streamlet.dsl.operators.columns import (
    collect,
    converted,
    finished,
    first_error,
    first_of,
    has_null,
    nth,
    over_values,
)
from streamlet.dsl.operators.copies import Own, copies
from streamlet.dsl.operators.hot_store import keyed
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.serdes import Serde
from streamlet.serdes.serde import named
from streamlet.topology.operator import TaskContext

Function = Callable[..., Any]


@attrs.frozen
class ForeignKey:
    """The foreign key of a row: ``function(value)`` or ``function(key, value)``.

    The function gets copies that ``own`` makes; None: rows cannot change.
    """

    function: Function
    takes: int
    own: Own

    def of(self, key: Any, value: Any) -> Any:
        """The foreign key; None of no row, or if it has none."""
        if value is None:
            return None
        if self.own is not None:
            value = self.own(value)
        return self.function(value) if self.takes == 1 else self.function(key, value)

    def of_column(
        self, keys: list[Any], values: list[Any]
    ) -> tuple[list[Any], BaseException | None]:
        """The foreign keys of rows before the first that it fails on, and the failure."""
        if has_null(values):
            return collect(map(self.of, keys, values), len(values))
        own = copies(values, self.own)
        return collect(over_values(self.function, self.takes, keys, own), len(values))


@attrs.frozen
class Subscribe:
    """Turns changes of the left table into subscriptions, under their foreign keys.

    Args:
        name: of the node.
        context: of the task; its partition is where answers go.
        foreign: the foreign key of a row.
        serdes: of foreign keys, and of the left table's keys.
        digest: tells the left table's values apart (``wire.digests``).
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
        news, error = self._foreign_keys(batch.keys, batch.values, of_foreign)
        befores, old_error = self._foreign_keys(batch.keys, batch.olds[: len(news)], of_foreign)
        found, failure = collect(self.digest(batch.values[: len(befores)]), len(befores))
        keys, unwritten = converted(of_key.encode_column, batch.keys[: len(found)], failure)
        out, dropped = self._asked(batch, keys, found, news, befores)
        if dropped:
            self.context.dropped(self.name, dropped)
        first = first_error(unwritten, old_error, error)
        if first is None:
            return out
        if unwritten is not None:
            raise OperatorFailed(len(keys), out, again=True) from first
        raise self._failed(batch, len(keys), out, old_error is not None) from first

    def _failed(self, batch: Batch, index: int, done: Batch, of_row: bool) -> OperatorFailed:
        """The failure on a record: a row for which the function fails names no other one."""
        one, serdes = batch.slice(index, index + 1), self.serdes
        assert one.olds is not None
        news, _ = self._foreign_keys(one.keys, one.values, serdes[0])
        befores, _ = self._foreign_keys(one.keys, one.olds, serdes[0])
        digests, failure = collect(self.digest(one.values), 1)
        keys, failure = converted(serdes[1].encode_column, one.keys, failure)
        if failure is not None:
            return OperatorFailed(index, done, again=True)
        instead, dropped = self._asked(one, keys, digests, news or [None], befores or [None])
        if of_row and dropped:
            self.context.dropped(self.name, dropped)
        return OperatorFailed(index, done, again=True, instead=instead, of_row=of_row)

    def _asked(
        self,
        batch: Batch,
        keys: list[Any],
        contents: list[bytes | None],
        news: list[bytes | None],
        befores: list[bytes | None],
    ) -> tuple[Batch, int]:
        """Subscriptions of the first records of a batch, and how many rows name no other one."""
        assert batch.olds is not None
        digests = wire_columns.digests_of(contents[: len(keys)], news[: len(keys)])
        columns = keys, digests, news, befores, batch.olds
        partition = wire.partition_bytes(self.context.task.partition)
        records, to, values, dropped = wire_columns.subscriptions(*columns, partition, self.left)
        times = list(map(batch.timestamps.__getitem__, records))
        return ResultColumns(records, to, values, times).batch(batch), dropped

    def _foreign_keys(
        self, keys: list[Any], values: list[Any], serde: Serde[Any]
    ) -> tuple[list[bytes | None], BaseException | None]:
        found, failure = self.foreign.of_column(keys, values)
        keys, unwritten = converted(serde.encode_column, found)
        return keys, first_error(named("foreign_key=", unwritten), failure)


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
        foreign: the foreign key of a row.
        foreign_key: serde of these.
        left: whether rows without a match are joined too.
        before: rows to which answers may still come; None: to those of the table alone.
    """

    name: str
    context: TaskContext
    rows: TableRows
    digest: wire.Digests
    value: Serde[Any]
    joiner: Joiner
    foreign: ForeignKey
    foreign_key: Serde[Any]
    left: bool
    before: ReplacedRows | None
    _fence: AnswerFence = attrs.field(factory=AnswerFence, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for an answer without sense, and where a function fails."""
        check_keys(batch, self.process)
        batch, ckeys, error = keyed(self.rows.store, batch)
        rows, failure = self.rows.values(batch.keys, ckeys)
        shown = len(rows)
        rest = error if failure is None else None
        out = self._of_rows(first_of(batch, shown), ckeys[:shown], rows, rest)
        if failure is None:
            return out
        one = slice(shown, shown + 1)  # its row is not there, then
        try:
            instead = self._of_rows(batch.slice(shown, shown + 1), ckeys[one], [None], None)
        except OperatorFailed as failed:
            raise failed.at(shown, out) from failed.__cause__
        raise OperatorFailed(shown, out, again=True, instead=instead, of_row=True) from failure

    def _of_rows(
        self, batch: Batch, ckeys: list[Any], rows: list[Any], error: BaseException | None
    ) -> Batch:
        """The results for left rows; raises as ``process``, and for the ``error`` behind them."""
        mine, failure = collect(self.digest(rows), len(rows))
        error = first_error(failure, error)
        raws = batch.values[: len(mine)]
        sources, digests, values, failure = wire_columns.answered(raws)
        error = first_error(failure, error)
        own = self._digests(batch.keys, rows, mine)
        kept = wire.are_digests_of(digests, mine, own)
        if self.before is not None:
            rows = self.before.fitted(ckeys, rows, digests, kept)
        if not all(kept):
            self._keep_more(ckeys, digests, own, kept)
        passing = self._fence.passing(sources, batch.offsets)
        if passing is not None:
            kept = list(map(and_, kept, passing))
        done = len(kept)
        part, sent = batch, values
        if not all(kept) or done < len(batch):
            part = batch.select(kept)
            sent, rows = list(compress(values, kept)), list(compress(rows, kept))
        out, failure = self._joined(part.keys, rows, sent)
        if failure is not None:
            error, done = failure, nth(kept, len(out))
            part = part.slice(0, len(out))
        if len(out) < done:
            self.context.dropped(self.name, done - len(out))
        return finished(part.with_values(out), error, done, again=failure is error)

    def _digests(
        self, keys: list[Any], rows: list[Any], contents: list[bytes | None]
    ) -> list[bytes | None]:
        """The digests of left rows, as ``Subscribe`` makes them."""
        rows = rows[: len(contents)]
        found, error = self.foreign.of_column(keys, rows)
        named, error = converted(self.foreign_key.encode_column, found, error)
        if error is not None:
            named = list(map(self._named, keys, rows))
        return wire_columns.digests_of(contents, named)

    def _named(self, key: Any, row: Any) -> bytes | None:
        """The foreign key of a row, bytes; None if it has none, or the function fails."""
        found, error = collect(map(self.foreign.of, [key], [row]), 1)
        raws, error = converted(self.foreign_key.encode_column, found, error)
        return raws[0] if error is None else None

    def _keep_more(
        self,
        ckeys: list[Any],
        digests: list[bytes | None],
        own: list[bytes | None],
        kept: list[bool],
    ) -> None:
        """Keep answers to rows that an earlier program made otherwise, and that name the same row.

        Not where the batch has the answer to the present value: the other one is out of date then.
        """
        exact = set(compress(ckeys, kept))
        for index in [index for index, one in enumerate(kept) if not one]:
            if ckeys[index] not in exact:
                kept[index] = wire.names_the_same(digests[index], own[index])

    def _joined(
        self, keys: list[Any], rows: list[Any], sent: list[bytes | None]
    ) -> tuple[list[Any], BaseException | None]:
        """The results for left rows and the right ones that were sent."""
        others, error = converted(self.value.decode_column, sent)
        count = len(others)
        if self.joiner.takes == 2 and not (has_null(others) or has_null(rows)):
            out, failure = self.joiner.column((rows, others), count)
        else:
            out, failure = collect(map(self._result, keys, rows, others), count)
        return out, first_error(failure, error)

    def _result(self, key: Any, row: Any, other: Any) -> Any:
        if row is None or (other is None and not (self.left and self._is_joined(key, row))):
            return None
        one = self.joiner.one
        if self.joiner.takes == 2:
            return one(row, other)
        if self.joiner.takes == 3:
            return one(key, row, other)
        return one(key, self.foreign.of(key, row), row, other)

    def _is_joined(self, key: Any, row: Any) -> bool:
        """False for a row that the function of the foreign key fails on, and which was left out."""
        _, error = collect(map(self.foreign.of, [key], [row]), 1)
        return error is None
