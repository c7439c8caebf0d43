"""Operators that fold a stream into a table: count, reduce, aggregate.

They work on the store's own dict; per record there is one look-up, one user function and one
assignment.

Who may touch which object, for values that can change in place:

- an aggregator gets a *copy* of the stored object, so it may change and return it: what was sent
  before stays as it was then, and a failure half-way leaves the store untouched;
- a copy of what it returns is stored, since it may have kept that, or put a record's value into it;
- the stored object is sent on, and never changes; functions downstream get copies of it
  (``ProcessorNode.keeps``).

The time of a row, and of the result that is sent on, is the highest of the records in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import finished
from streamlet.dsl.operators.hot_store import (
    Function,
    keeper,
    keyed,
    loaded,
    reader,
    row_times,
)
from streamlet.errors import StateError
from streamlet.serdes import Serde
from streamlet.state.store import CachedStore


@attrs.frozen
class Count:
    """Number of records per key so far, in each record's place."""

    store: CachedStore
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key that the store's serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        out = counted(self.store, ckeys)
        olds = [count - 1 or None for count in out] if self.use.olds else None
        times = row_times(self.store, ckeys, lambda at: out[at] > 1, batch.timestamps)
        return finished(batch.with_values(out, olds, times), error)


@attrs.frozen
class Aggregate:
    """``aggregator(key, value, aggregate)`` per key, beginning with ``initializer()``."""

    store: CachedStore
    initializer: Function
    aggregator: Function
    value: Serde[Any]
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a function fails or returns what the serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        step = self.initializer, self.aggregator, reader(self.value), keeper(self.value, "result")
        out, olds, failure = aggregated(self.store, batch, ckeys, *step)
        error = error if failure is None else failure
        return stored(self.store, self.use, batch, ckeys, out, olds, error)


@attrs.frozen
class Reduce:
    """``reducer(aggregate, value)`` per key, beginning with the first value as it is."""

    store: CachedStore
    reducer: Function
    value: Serde[Any]
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the reducer fails or returns what the serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        cache, reducer = self.store.cache, self.reducer
        read, keep = reader(self.value), keeper(self.value, "result")
        out: list[Any] = []
        olds: list[Any] = []
        find = cache.get if loaded(self.store, ckeys) else self.store.load
        try:
            for ckey, value in zip(ckeys, batch.values, strict=True):
                old = find(ckey)
                new = keep(value if old is None else reducer(read(old) if read else old, value))
                cache[ckey] = new
                out.append(new)
                olds.append(old)
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # an exit is an error like any other
            error = failure
        return stored(self.store, self.use, batch, ckeys, out, olds, error)


def stored(
    store: CachedStore,
    use: TableUse,
    batch: Batch,
    ckeys: list[Any],
    out: list[Any],
    olds: list[Any],
    error: BaseException | None,
) -> Batch:
    """The output for the records whose new values ``out`` are in the store, or the failure."""
    part = batch
    if len(out) < len(batch):
        part, ckeys = batch.slice(0, len(out)), ckeys[: len(out)]
        del olds[len(out) :]
    times = row_times(store, ckeys, lambda at: olds[at] is not None, part.timestamps)
    return finished(part.with_values(out, olds if use.olds else None, times), error)


def counted(store: CachedStore, ckeys: list[Any]) -> list[int]:
    """Count a record for each cache key; the counts, which are in the cache."""
    cache = store.cache
    out: list[int] = []
    append = out.append
    try:
        for ckey in ckeys:
            count = cache[ckey] + 1
            cache[ckey] = count
            append(count)
    except (KeyError, TypeError):  # not in the cache, or there as deleted
        rest = ckeys[len(out) :]
        find = cache.get if loaded(store, rest) else store.load
        for ckey in rest:
            count = (find(ckey) or 0) + 1
            cache[ckey] = count
            append(count)
    return out


def aggregated(
    store: CachedStore,
    batch: Batch,
    ckeys: list[Any],
    initializer: Function,
    aggregator: Function,
    read: Callable[[Any], Any] | None,
    keep: Callable[[Any], Any],
) -> tuple[list[Any], list[Any], BaseException | None]:
    """Aggregate a record into the row of each cache key; new values are in the cache.

    Returns:
        The new values, the old ones, and the failure that ended it.
    """
    cache = store.cache
    out: list[Any] = []
    olds: list[Any] = []
    find = cache.get if loaded(store, ckeys) else store.load
    try:
        for key, ckey, value in zip(batch.keys, ckeys, batch.values, strict=True):
            old = find(ckey)
            mine = initializer() if old is None else old
            new = keep(aggregator(key, value, read(mine) if read else mine))
            cache[ckey] = new
            out.append(new)
            olds.append(old)
    except (StateError, KeyboardInterrupt):
        raise
    except BaseException as failure:  # an exit is an error like any other
        return out, olds, failure
    return out, olds, None
