"""Operators on tables. A None value is a tombstone; user functions never see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import not_, truth
from typing import Any, Protocol

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import (
    HotStore,
    accepting,
    copied,
    copier,
    finished,
    keyed,
    note_times,
)
from streamlet.dsl.columns import collect, has_null, over_values
from streamlet.dsl.copies import Own, snapshots
from streamlet.dsl.failed_rows import Made, changed_rows
from streamlet.dsl.uses import TableUse
from streamlet.errors import StateError
from streamlet.lazy_results import LARGE, looked_at, refuse_promise
from streamlet.serdes import Serde

Function = Callable[..., Any]


@attrs.frozen
class TableSource:
    """Puts a topic's records into the table's store; a tombstone deletes.

    They count as they come: a record with an earlier time than its row's replaces that too.
    """

    store: HotStore
    value: Serde[Any]
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key or a value that the store's serdes refuse."""
        batch, ckeys, error = keyed(self.store, batch)
        # The records' own objects go on to other readers of the topic: the store keeps copies.
        kept, failure = copied(copier(self.value), batch.values)
        error = failure or error
        count, olds, failure = self._put(ckeys[: len(kept)], kept)
        error = failure or error
        done = _first(batch, count)
        note_times(self.store, ckeys[:count], done.timestamps)
        done = done.with_values(done.values, olds)
        # Its rows have no versions, whatever the table above is.
        return finished(done if done.behind is None else attrs.evolve(done, behind=None), error)

    def _put(
        self, ckeys: list[Any], values: list[Any]
    ) -> tuple[int, list[Any] | None, BaseException | None]:
        """Put rows; how many, the old ones where they are needed, and what the next failed on."""
        cache, wanted = self.store.cache, self.use.olds
        if not wanted and type(cache) is dict:
            cache.update(zip(ckeys, values, strict=True))
            return len(ckeys), None, None
        done, olds = 0, list[Any]()
        try:
            for ckey, value in zip(ckeys, values, strict=True):
                if wanted:
                    old = cache.get(ckey)
                    olds.append(self.store.load(ckey) if old is None else old)
                cache[ckey] = value
                done += 1
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # a cache that checks its entries
            return done, olds[:done] if wanted else None, failure
        return done, olds if wanted else None, None


@attrs.frozen
class UnreadTable:
    """Passes a topic's records on as changes of a table whose store nothing reads.

    As in Kafka Streams all go on, tombstones of rows that never were included.
    """

    def process(self, batch: Batch) -> Batch:
        """The batch; it never had previous values."""
        return batch


class PuttingSource(Protocol):
    """Puts changes into the store of a table, whose values have a serde."""

    @property
    def value(self) -> Serde[Any]:
        """Serde of the values."""
        ...

    def process(self, batch: Batch) -> Batch:
        """The changes, as the table tells them."""
        ...


@attrs.frozen
class ToTable:
    """Puts a stream's records into a table's store, if that can keep their values."""

    source: PuttingSource

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key or a value that the store's serdes refuse."""
        serde = self.source.value
        if serde.accepts:
            good, error = collect(map(accepting(serde), batch.values), len(batch))
            if error is not None:
                done = self.source.process(_first(batch, len(good)))
                raise OperatorFailed(len(good), done) from error
        return self.source.process(batch)


@attrs.define
class TableFilter:
    """Keeps rows for which ``function(key, value)`` is true (``keep``) or false.

    A row that passes no more becomes a tombstone; one that neither passed nor passes is left out,
    but of a ``versioned`` table, as in Kafka Streams.
    """

    function: Function
    keep: bool
    versioned: bool = False
    _looked: bool = attrs.field(default=False, init=False)

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function, or the truth of its answer, fails."""
        if batch.olds is not None:
            return changed_rows(batch, self._made, self._changes)
        out, error = self.rows(batch.keys, batch.values)
        return finished(_first(batch, len(out)).with_values(out), error)

    def _made(self, keys: list[Any], values: list[Any], _start: int) -> Made:
        return self.rows(keys, values)

    def _changes(self, batch: Batch, rows: list[Any], olds: list[Any], _start: int) -> Batch:
        """The changes that are seen."""
        seen = [row is not None or old is not None for row, old in zip(rows, olds, strict=True)]
        done = batch.with_values(rows, olds)
        return done if self.versioned or all(seen) else done.select(seen)

    def rows(self, keys: list[Any], values: list[Any]) -> Made:
        """The values that pass, None for the others, up to the one that the function fails on."""
        test = truth if self.keep else not_
        function = self.function
        if has_null(values):
            pairs = zip(keys, values, strict=True)
            some = (value is not None and test(_kept(function(key, value))) for key, value in pairs)
            mask, error = collect(some, len(values))
        else:
            answers: Iterator[Any] = map(function, keys, values)
            if not self._looked or len(values) > LARGE:
                answers = looked_at(answers)
            mask, error = collect(map(test, answers), len(values))
            self._looked = self._looked or bool(mask)
        kept = zip(values, mask, strict=False)
        return [value if passes else None for value, passes in kept], error


@attrs.frozen
class TableMapValues:
    """Replaces values by ``function(value)`` or ``function(key, value)``.

    Tombstones stay, unless the function sees them too (``tombstones``). ``own`` makes copies of
    what it returns; None: that cannot change.
    """

    function: Function
    takes: int
    use: TableUse
    own: Own
    tombstones: bool = False

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails."""
        if batch.olds is not None and self.use.olds:
            return changed_rows(batch, self._made, _changes)
        out, error = self.rows(batch.keys, batch.values)
        return finished(_first(batch, len(out)).with_values(out), error)

    def _made(self, keys: list[Any], values: list[Any], _start: int) -> Made:
        return self.rows(keys, values)

    def rows(self, keys: list[Any], values: list[Any]) -> Made:
        """The new values, up to the one that the function fails on."""
        if self.tombstones or not has_null(values):
            made = over_values(self.function, self.takes, keys, values)
            return collect(snapshots(made, self.own), len(values))
        one = self.function if self.takes == 2 else _without_key(self.function)
        pairs = zip(keys, values, strict=True)
        results = (None if value is None else one(key, value) for key, value in pairs)
        return collect(snapshots(results, self.own), len(values))


@attrs.frozen
class ToStream:
    """Hands changes on as records; previous values end here."""

    def process(self, batch: Batch) -> Batch:
        """The batch without previous values."""
        if batch.behind is not None:
            return attrs.evolve(batch, olds=None, behind=None)
        return batch if batch.olds is None else batch.with_values(batch.values)


def _kept(answer: Any) -> Any:
    """The answer of a predicate, unless it is a coroutine or the like."""
    refuse_promise(answer)
    return answer


def _changes(batch: Batch, rows: list[Any], olds: list[Any], _start: int) -> Batch:
    return batch.with_values(rows, olds)


def _first(batch: Batch, count: int) -> Batch:
    return batch if count == len(batch) else batch.slice(0, count)


def _without_key(function: Function) -> Function:
    return lambda key, value: function(value)
