"""The time after which rows of a table expire (``Materialized(ttl=)``), around its operators.

Each operator that touches such a store, to write it or to read it, is wrapped: a batch is cut where
a key comes again whose row has expired meanwhile, and such a row is deleted before its record. So
a batch gives what its records would give one by one. The other rows are found by timers beside the
store, some with each batch: one timer a key, which looks at the row when it is due, so a key that
is written often does not write it each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.batch import Batch, OperatorFailed, joined
from streamlet.dsl.graph.durations import milliseconds
from streamlet.dsl.graph.materialized import Materialized
from streamlet.errors import TopologyError
from streamlet.serdes import ColumnError, Serde
from streamlet.state.rows import NO_TIME
from streamlet.state.store_specs import StoreSpec
from streamlet.state.timer_store import TimerStore, timer_rows
from streamlet.topology.operator import HoldingOperator, Operator, OperatorInParts, TaskContext
from streamlet.types import LATEST_MS

if TYPE_CHECKING:
    from streamlet.state.row_ttl import RowTtl
    from streamlet.state.store import CachedStore

#: Timers that a batch looks at: so many for each of its records, and more than it sets.
LOOKS = 4


def timers_of(name: str) -> str:
    """The name of the store of timers beside a store whose rows expire."""
    return f"{name}-ttl"


def timers_beside(spec: StoreSpec) -> StoreSpec:
    """The store of timers beside a store whose rows expire."""
    name, rows = timers_of(spec.name), timer_rows()
    return StoreSpec(
        name, spec.key, rows, spec.persistent, spec.logged, named=spec.named, timers=True
    )


def ttl_of(how: Materialized, refused: str) -> int | None:
    """The time to live of a store's rows, ms; None: they stay.

    ``refused`` is the reason why the store cannot have one, empty if it can.

    Raises:
        TopologyError: it cannot, or the time is no duration.
    """
    if how.ttl is None:
        return None
    call = f"store {how.name}: ttl" if how.name is not None else "Materialized(ttl=…)"
    if refused:
        raise TopologyError(f"{call}: {refused}")
    return milliseconds(call, how.ttl, 1)


@attrs.frozen
class StoreRows:
    """The expiry of the rows of one store, for one operator.

    Args:
        store: of the rows.
        ttl: of the rows.
        timers: beside it; they also keep stream time.
        key: serde of the keys.
    """

    store: CachedStore
    ttl: RowTtl
    timers: TimerStore
    key: Serde[Any]

    @classmethod
    def bound(cls, context: TaskContext, spec: StoreSpec) -> StoreRows:
        """The expiry of a store of this task."""
        store, timers = context.store(spec.name), context.store(timers_of(spec.name))
        store.ttl.timers = timers
        return cls(store, store.ttl, timers, spec.key)

    def ckeys(self, batch: Batch) -> list[Any]:
        """The cache key of each record in the store, None without one."""
        keys = [key for key in batch.keys if key is not None]
        try:
            found = list(self.store.ckeys(keys))
        except ColumnError as failed:  # the operator fails on that record
            found = list(self.store.ckeys(keys[: failed.index])) if failed.index else []
        self.store.load_many(found)
        rest = iter(found)
        return [None if key is None else next(rest, None) for key in batch.keys]

    def run(self, ckeys: list[Any], times: list[int], start: int) -> int:
        """The end of the records from ``start`` on that may be processed as one.

        Rows that have expired before the first of them with their key are deleted.
        """
        now, store = self.timers.progress.observed, self.store
        least: dict[Any, int] = {}  # no row of the run is older than that
        for index in range(start, len(times)):
            time, ckey = times[index], ckeys[index]
            now = max(now, time)
            if ckey is None:
                continue
            known = least.get(ckey)
            if known is not None:
                if known + self.ttl.ttl_ms <= now:
                    return index
                least[ckey] = min(known, time)
                continue
            if self.ttl.has_expired(ckey, now):
                self.ttl.drop(ckey)
            before = NO_TIME if store.cache.get(ckey) is None else store.time_of(ckey)
            least[ckey] = time if before == NO_TIME else min(before, time)
        return len(times)

    def done(self, ckeys: Sequence[Any], times: Sequence[int]) -> None:
        """Note stream time and the rows that were written, and delete some that have expired."""
        timers, store = self.timers, self.store
        if times:
            now = max(times)
            if now > timers.progress.observed:
                timers.advance(now)
        for ckey in dict.fromkeys(ckeys):
            if ckey is None or store.cache.get(ckey) is None:
                continue
            raw = self.key.encode(ckey) if store.exact_keys else ckey
            if timers.time(raw) is None:
                self._remind(raw, ckey)
        self._sweep(LOOKS * (len(times) + 1))

    def _remind(self, raw: bytes, ckey: Any) -> None:
        time = max(0, self.store.time_of(ckey)) + self.ttl.ttl_ms
        self.timers.set(raw, min(time, LATEST_MS))

    def _sweep(self, most: int) -> None:
        """Delete expired rows among some whose timers are due."""
        now, store = self.timers.progress.observed, self.store
        for _ in range(most):
            taken = self.timers.take(now)
            if taken is None:
                return
            raw = taken[1]
            ckey = self.key.decode(raw) if store.exact_keys else raw
            if store.load(ckey) is None:
                continue
            if self.ttl.has_expired(ckey, now):
                self.ttl.drop(ckey)
            elif store.time_of(ckey) != NO_TIME:
                self._remind(raw, ckey)


@attrs.frozen
class ExpiringRows:
    """Gives ``inner`` batches in which no row expires between two records of its key."""

    inner: Operator
    stores: tuple[StoreRows, ...]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as ``inner`` does, with the index in the batch given here."""
        done: list[Batch] = []
        start, columns = 0, [rows.ckeys(batch) for rows in self.stores]
        while start < len(batch):
            pairs = zip(self.stores, columns, strict=True)
            end = min(rows.run(ckeys, batch.timestamps, start) for rows, ckeys in pairs)
            part = batch if end - start == len(batch) else batch.slice(start, end)
            try:
                done.append(self.inner.process(part))
            except OperatorFailed as failed:
                self._done(batch, columns, start, start + failed.index)
                whole = joined([*done, failed.done])
                raise failed.at(start + failed.index, whole) from failed.__cause__
            self._done(batch, columns, start, end)
            start = end
        return joined(done) if done else self.inner.process(batch)

    def _done(self, batch: Batch, columns: list[list[Any]], start: int, end: int) -> None:
        for rows, ckeys in zip(self.stores, columns, strict=True):
            rows.done(ckeys[start:end], batch.timestamps[start:end])


@attrs.frozen
class HoldingExpiringRows(ExpiringRows):
    """Expiring rows of an operator that sends its results with commits."""

    @property
    def holds(self) -> bool:
        """True if ``inner`` has some."""
        assert isinstance(self.inner, HoldingOperator)
        return self.inner.holds

    def release(self) -> Batch | None:
        """The results of ``inner``."""
        assert isinstance(self.inner, HoldingOperator)
        return self.inner.release()


def expiring(
    operator: Operator | OperatorInParts, context: TaskContext, specs: Sequence[StoreSpec]
) -> Operator | OperatorInParts:
    """An operator for these stores, some of whose rows may expire.

    User code with stores of its choice (an operator in parts) sees to expiry with each look-up.
    """
    rows = tuple(StoreRows.bound(context, spec) for spec in specs if spec.ttl_ms is not None)
    if not rows or isinstance(operator, OperatorInParts):
        return operator
    if isinstance(operator, HoldingOperator):
        return HoldingExpiringRows(operator, rows)
    return ExpiringRows(operator, rows)
