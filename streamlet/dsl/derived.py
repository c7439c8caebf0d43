"""Tables that are made of another one row by row, with a store of their own or without.

Without a store their rows are worked out from those of the table above where they are read
(``joins.TableView``). With one they are kept, as of the record that changed them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import HotStore, accepting, copier, keyed, note_times
from streamlet.dsl.columns import collect
from streamlet.dsl.failed_rows import Made
from streamlet.dsl.joins import TableView
from streamlet.dsl.kinds import Kind
from streamlet.dsl.materialized import StoreLike
from streamlet.dsl.table_node import TableNode
from streamlet.dsl.tables import TableFilter, TableMapValues
from streamlet.dsl.uses import TableUse
from streamlet.errors import StateError
from streamlet.serdes import Serde
from streamlet.topology.operator import Operator


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
    store: HotStore
    value: Serde[Any]
    use: TableUse
    silent: bool

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails or returns what the serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        rows, failure = self.make(batch.keys, batch.values)
        error = failure or error
        if self.value.accepts:
            count = len(rows)
            good, failure = collect(map(accepting(self.value), rows), count)
            rows, error = rows[: len(good)], failure or error
        olds, failure = self._put(ckeys, rows)
        done = batch if len(olds) == len(batch) else batch.slice(0, len(olds))
        pairs = zip(rows, olds, strict=False)
        seen = [row is not None or old is not None for row, old in pairs]
        note_times(self.store, compress(ckeys, seen), list(compress(done.timestamps, seen)))
        out = done.with_values(rows[: len(olds)], olds if self.use.olds else None)
        if out.behind is not None:  # its rows have no versions, whatever the table above is
            out = attrs.evolve(out, behind=None)
        if self.silent and not all(seen):
            out = out.select(seen)
        if failure is not None or error is not None:
            raise OperatorFailed(len(olds), out, again=True) from (failure or error)
        return out

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
