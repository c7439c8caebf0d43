"""The operators of a join by foreign keys in the task of the right table.

They keep subscriptions by foreign key and primary key, answer each one, and answer all of a foreign
key when its row changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, islice
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.columnwise import put_values
from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.dsl.joins.joined_rows import TableRows
from streamlet.dsl.operators.columns import collect, converted, has_null, not_null, with_gaps
from streamlet.dsl.operators.hot_store import note_times
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.serdes import Serde
from streamlet.topology.operator import TaskContext

#: Answers that are sent before other tasks may go on.
PART = 10_000

_ABSENT = object()


@attrs.frozen
class KeepSubscriptions:
    """Adds subscriptions to their store, or removes them, and hands them on.

    Args:
        store: of subscriptions.
        foreign: serde of foreign keys.
    """

    store: Any
    foreign: Serde[Any]

    def process(self, batch: Batch) -> Batch:
        """The subscriptions, unpacked; raises ``OperatorFailed`` for one that cannot be read."""
        cache, times = self.store.cache, batch.timestamps
        named = self.foreign.encode_column(batch.keys)
        try:
            found, ckeys, rows = wire_columns.kept(batch.values, named)
        except ValueError:
            good, error = collect(map(wire.subscribed, batch.values), len(batch))
            done = self.process(batch.slice(0, len(good)))
            raise OperatorFailed(len(good), done, again=True) from error
        if len(rows) < len(batch):
            times = list(compress(times, not_null(named)))
        if type(cache) is dict:
            put_values(cache, ckeys, rows)
        else:  # one that refuses large rows
            for ckey, row in zip(ckeys, rows, strict=True):
                cache[ckey] = row
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
        present = batch.keys
        if has_null(present):
            present = [key for key in present if key is not None]
        ckeys = with_gaps(batch.keys, self.rows.store.ckeys(present))
        known, error = self._rows(batch, ckeys)
        out, end = self._answers(batch, ckeys, known)
        if end == len(batch):
            return out
        one = slice(end, end + 1)  # there is no such row, then
        instead, _ = self._answers(batch.slice(end, end + 1), ckeys[one], {ckeys[end]: (None, -1)})
        raise OperatorFailed(end, out, again=True, instead=instead, of_row=True) from error

    def _answers(
        self, batch: Batch, ckeys: list[Any], known: dict[Any, tuple[bytes | None, int]]
    ) -> tuple[Batch, int]:
        """The answers up to one with a row that is not known, and its index."""
        source = wire.source_of(self.context.task.partition, self.context.epoch)
        columns = batch.values, ckeys, batch.timestamps
        records, keys, values, times, end = wire_columns.made(*columns, known, source)
        return ResultColumns(records, keys, values, times).batch(batch), end

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
        raws, error = converted(self.value.encode_column, rows, error)
        known = dict(zip(asked, zip(raws, times, strict=False), strict=False))
        if none is not _ABSENT:
            known[None] = None, -1
        return known, error


@attrs.frozen
class AnswerChange:
    """Answers all subscribers of a right row that changed.

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
        out = ResultColumns()
        source = wire.source_of(self.context.task.partition, self.context.epoch)
        columns = self.foreign.encode_column(batch.keys), batch.values, batch.timestamps
        for index, (foreign, value, time) in enumerate(zip(*columns, strict=True)):
            start = wire.row_key(foreign or b"")
            subscribed = self.store.prefix(start)
            sent: bytes | None = None
            some = list(islice(subscribed, PART - len(out)))
            if some and value is not None:
                try:
                    sent = self.value.encode(value)
                except KeyboardInterrupt:
                    raise
                except BaseException as failure:  # a serde of the user's
                    raise OperatorFailed(index, out.batch(batch)) from failure
            while some:
                keys = [key[len(start) :] for key, _ in some]
                out.extend(index, keys, wire.answers(some, source, sent), [time] * len(keys))
                if len(out) >= PART:
                    yield out.take(batch)
                some = list(islice(subscribed, PART - len(out)))
        yield out.batch(batch)
