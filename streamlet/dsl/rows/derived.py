"""Tables that are made of another one row by row, with a store of their own or without.

Without a store their rows are worked out from those of the table above where they are read
(``graph.table_views``). With one they are kept, as of the record that changed them. A None value
is a tombstone; user functions never see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from operator import not_, truth
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.table_views import TableView
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import (
    collect,
    finished,
    first_error,
    first_of,
    has_null,
    over_values,
)
from streamlet.dsl.operators.copies import Own, snapshots
from streamlet.dsl.operators.failed_rows import Made, changed_rows
from streamlet.dsl.operators.hot_store import accepting, copier, keyed, note_times
from streamlet.errors import StateError
from streamlet.lazy_results import LARGE, looked_at, refuse_answer
from streamlet.serdes import Serde
from streamlet.state.store import CachedStore
from streamlet.topology.operator import Operator

Function = Callable[..., Any]


@attrs.frozen
class Derivation:
    """The derivation of a table: what it is called, what it makes, how its rows can be read.

    Args:
        call: the user's, for messages.
        prefix: of the node's name.
        operator: makes the operator; it is given what is noted of the table.
        view: makes a row of that of the table above.
        silent: whether a tombstone of a row that was not there is left out, where that is known.
        name: of its node, if the user gave one.
    """

    call: str
    prefix: str
    operator: Callable[[TableUse], TableFilter | TableMapValues]
    view: TableView
    silent: bool = False
    name: str | None = None


def derived(
    above: TableNode, how: Derivation, store: StoreLike, key: Kind, value: Kind
) -> TableNode:
    """The node of a table made of the one above, whose keys and values are of these kinds.

    Raises:
        TopologyError: it has a store, and the type of its keys or values is not known.
    """
    builder = above.builder
    if store is None:
        if how.silent:
            above.use.wish_olds()
        use = TableUse(parent=above.use)
        operator = how.operator(use)
        name = builder.processor(how.prefix, (above.name,), lambda _: operator, name=how.name)
        return attrs.evolve(above, name=name, use=use, views=(*above.views, how.view))
    serdes = key.needed(how.call, "key", takes=False), value.needed(how.call, "value")
    spec = builder.store(store, how.prefix, *serdes)
    use = TableUse()
    known = above.use.knows_olds()

    def make(context: Any) -> Operator:
        silent = how.silent and (known or use.olds)
        return StoredRows(how.operator(use).rows, context.store(spec.name), spec.value, use, silent)

    name = builder.processor(
        how.prefix, (above.name,), make, writes=spec.name, name=how.name, by_key=True
    )
    return attrs.evolve(above, name=name, use=use, store=spec, views=(), history_ms=None)


@attrs.frozen
class StoredRows:
    """Keeps the rows that are made of the changes of a table.

    Args:
        make: them.
        store: that keeps them.
        value: its serde of values.
        use: what is noted of the table.
        silent: whether a tombstone of a row that was not there is left out.
    """

    make: Callable[[list[Any], list[Any]], Made]
    store: CachedStore
    value: Serde[Any]
    use: TableUse
    silent: bool

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails or returns what the serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        rows, failure = self.make(batch.keys, batch.values)
        error = first_error(failure, error)
        if self.value.accepts:
            count = len(rows)
            good, failure = collect(map(accepting(self.value, "result"), rows), count)
            rows, error = rows[: len(good)], first_error(failure, error)
        olds, failure = self._put(ckeys, rows)
        done = first_of(batch, len(olds))
        pairs = zip(rows, olds, strict=False)
        seen = [row is not None or old is not None for row, old in pairs]
        note_times(self.store, compress(ckeys, seen), list(compress(done.timestamps, seen)))
        out = done.with_values(rows[: len(olds)], olds if self.use.olds else None)
        if out.behind is not None:  # its rows have no versions, whatever the table above is
            out = attrs.evolve(out, behind=None)
        if self.silent and not all(seen):
            out = out.select(seen)
        return finished(out, first_error(failure, error), len(olds))

    def _put(self, ckeys: list[Any], rows: list[Any]) -> tuple[list[Any], BaseException | None]:
        """Put rows; the previous ones, and the failure that ended it."""
        store, copy = self.store, copier(self.value)
        cache, olds = store.cache, list[Any]()
        store.load_many(ckeys)
        try:
            # The rows go on to other readers: the store keeps copies.
            for ckey, row in zip(ckeys, rows, strict=False):
                old = cache[ckey]
                cache[ckey] = copy(row) if copy else row
                olds.append(old)
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # a cache that takes no large rows
            return olds, failure
        return olds, None


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
        return finished(first_of(batch, len(out)).with_values(out), error)

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
                answers = looked_at(answers, refuse_answer)
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
        return finished(first_of(batch, len(out)).with_values(out), error)

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


def _kept(answer: Any) -> Any:
    """The answer of a predicate, unless it is a coroutine or the like."""
    refuse_answer(answer)
    return answer


def _changes(batch: Batch, rows: list[Any], olds: list[Any], _start: int) -> Batch:
    return batch.with_values(rows, olds)


def _without_key(function: Function) -> Function:
    return lambda key, value: function(value)
