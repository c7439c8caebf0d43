"""Operators that put the records of a topic or a stream into a table; None deletes a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.batch import Batch
from streamlet.columnwise import put_values, swap_values
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import collect, finished, first_error, first_of
from streamlet.dsl.operators.hot_store import accepting, kept, keyed, note_times
from streamlet.errors import StateError
from streamlet.serdes import Serde
from streamlet.state.store import CachedStore

if TYPE_CHECKING:
    from streamlet.dsl.rows.versioned import VersionedSource

Function = Callable[..., Any]


@attrs.frozen
class TableSource:
    """Puts a topic's records into the table's store; a tombstone deletes.

    They count as they come: a record with an earlier time than its row's replaces that too.

    Args:
        store: of the table.
        value: serde of its values.
        use: what is noted of the table.
        as_read: whether these have read the values, and the store has the objects themselves.
    """

    store: CachedStore
    value: Serde[Any]
    use: TableUse
    as_read: bool = False

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key or a value that the store's serdes refuse."""
        batch, ckeys, error = keyed(self.store, batch)
        # The records' own objects go on to other readers of the topic: the store keeps copies,
        # unless these get some (``ProcessorNode.keeps``).
        values, failure = (batch.values, None) if self.as_read else kept(self.value, batch.values)
        error = first_error(failure, error)
        count, olds, failure = self._put(ckeys[: len(values)], values)
        error = first_error(failure, error)
        done = first_of(batch, count)
        note_times(self.store, ckeys[:count], done.timestamps)
        done = done.with_values(done.values, olds)
        # Its rows have no versions, whatever the table above is.
        return finished(done if done.behind is None else attrs.evolve(done, behind=None), error)

    def _put(
        self, ckeys: list[Any], values: list[Any]
    ) -> tuple[int, list[Any] | None, BaseException | None]:
        """Put rows; how many, the old ones where they are needed, and what the next failed on."""
        cache, wanted = self.store.cache, self.use.olds
        if wanted:
            self.store.load_many(ckeys)
        if type(cache) is dict:
            if wanted:
                return len(ckeys), swap_values(cache, ckeys, values), None
            put_values(cache, ckeys, values)
            return len(ckeys), None, None
        done, olds = 0, list[Any]()
        try:
            for ckey, value in zip(ckeys, values, strict=True):
                if wanted:
                    olds.append(cache[ckey])
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


@attrs.frozen
class ToTable:
    """Puts a stream's records into a table's store, if that can keep their values."""

    source: TableSource | VersionedSource

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key or a value that the store's serdes refuse."""
        serde = self.source.value
        if serde.accepts and not serde.accepts.issuperset(map(type, batch.values)):
            good, error = collect(map(accepting(serde), batch.values), len(batch))
            done = self.source.process(first_of(batch, len(good)))
            return finished(done, error, len(good), again=False)
        return self.source.process(batch)
