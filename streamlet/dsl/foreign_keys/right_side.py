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
from streamlet.dsl.foreign_keys import wire
from streamlet.dsl.joins.joined_rows import TableRows
from streamlet.dsl.operators.columns import has_null, not_null, with_gaps
from streamlet.dsl.operators.hot_store import note_times
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.serdes import Serde
from streamlet.topology.operator import TaskContext

#: Answers that are sent before other tasks may go on.
PART = 10_000

_ABSENT = object()
#: Instructions with which a subscription stays.
_STAYS = (wire.SUBSCRIBE_IF_THERE, wire.SUBSCRIBE)


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
        """The subscriptions, unpacked."""
        cache = self.store.cache
        found = wire.subscribed_column(batch.values)
        named = self.foreign.encode_column(batch.keys)
        kept, times = found, batch.timestamps
        if None in named:
            there = not_null(named)
            kept, times = list(compress(found, there)), list(compress(times, there))
            named = list(compress(named, there))
        starts: dict[bytes | None, bytes] = {
            foreign: wire.row_key(foreign) for foreign in set(named) if foreign is not None
        }
        pairs = zip(named, kept, strict=True)
        ckeys = [starts[foreign] + key for foreign, (_, _, key, _) in pairs]
        rows = [
            None if digest is None or instruction not in _STAYS else digest + partition
            for instruction, digest, _, partition in kept
        ]
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
        out = ResultColumns()
        source = wire.source_of(self.context.task.partition, self.context.epoch)
        head = wire.usual_head(source)
        add_record, add_key = out.records.append, out.keys.append
        add_value, add_time = out.values.append, out.times.append
        columns = batch.values, ckeys, batch.timestamps
        for index, ((instruction, digest, key, partition), ckey, time) in enumerate(
            zip(*columns, strict=True)
        ):
            if instruction == wire.UNSUBSCRIBE:
                continue
            found = known.get(ckey)
            if found is not None and digest is not None and instruction in _STAYS:
                sent, row_time = found
                if sent is not None:
                    add_record(index)
                    add_key(key)
                    add_value(partition + head + digest + sent)
                    add_time(time if time > row_time else row_time)
                    continue
            to = out if found is not None else ResultColumns()
            sent, row_time = found or (None, -1)
            if instruction == wire.UNSUBSCRIBE_AND_ANSWER:
                sent = None
            if sent is not None or instruction != wire.SUBSCRIBE_IF_THERE:
                raw = wire.answer(partition, source, digest, sent)
                to.add(index, key, raw, max(time, row_time))
            if found is None:  # there is no such row, then
                done, instead = out.batch(batch), to.batch(batch)
                failed = OperatorFailed(index, done, again=True, instead=instead, of_row=True)
                raise failed from error
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
        raws, error = wire.encoded(self.value, rows, error)
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
