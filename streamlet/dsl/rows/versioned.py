"""Operators of versioned tables: each row keeps what it was, for a while.

As in Kafka Streams, a versioned table takes changes out of order. Those that are not of the newest
version of their row go on, marked (``Batch.behind``): filters and streams show them, aggregations
and joins of tables leave them out. A stream joins with the row as of the time of its record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.dsl.graph.builder import Builder, Make, NodeFlags
from streamlet.dsl.graph.table_node import TableNode
from streamlet.dsl.graph.table_views import TableView
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import finished, first_error, first_of
from streamlet.dsl.operators.copies import Own, owner
from streamlet.dsl.operators.hot_store import kept, keyed
from streamlet.dsl.operators.nulls import Skip, skipping
from streamlet.dsl.rows.sources import TableSource, UnreadTable
from streamlet.errors import StateError
from streamlet.serdes import Serde
from streamlet.state.store_specs import StoreSpec
from streamlet.state.versioned_store import NEWEST, NOT_PUT, VersionedStore
from streamlet.topology.operator import Operator, TaskContext
from streamlet.topology.unread_stores import SourceTable


@attrs.frozen
class VersionedSource:
    """Puts records into the store of a versioned table, each as a version from its time on.

    One that is older than the history is left out and counted as dropped.
    """

    store: VersionedStore
    value: Serde[Any]
    use: TableUse
    dropped: Callable[[int], None]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key that the store's serde refuses."""
        batch, heads, error = keyed(self.store, batch)
        store = self.store
        # The records' own objects go on to other readers of the topic: the store keeps copies.
        values, failure = kept(self.value, batch.values)
        error = first_error(failure, error)
        store.load_many(heads)
        ends: list[int] = []
        olds: list[Any] = []
        try:
            for head, value, time in zip(heads, values, batch.timestamps, strict=False):
                old = store.newest(head)
                ends.append(store.put_version(head, value, time))
                olds.append(old)
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as refused:  # a cache that checks its entries
            error = refused
        done = self._output(first_of(batch, len(ends)), ends, olds)
        return finished(done, error, len(ends), again=False)

    def _output(self, batch: Batch, ends: list[int], olds: list[Any]) -> Batch:
        """The changes that are in the store, with old values and which came out of order."""
        behind = [end != NEWEST for end in ends]
        batch = batch.with_values(batch.values, olds if self.use.olds else None)
        batch = attrs.evolve(batch, behind=behind if any(behind) else None)
        late = ends.count(NOT_PUT)
        if late:
            self.dropped(late)
            batch = batch.select([end != NOT_PUT for end in ends])
        return batch


class _SkipBehind(Skip):
    """The changes that are not of the newest version of their row."""

    def mask(self, batch: Batch) -> list[Any] | None:
        """Mask of the others; None: all."""
        return None if batch.behind is None else [not one for one in batch.behind]

    def part(self, batch: Batch, mask: list[Any]) -> Batch:
        """The others, without the column that marks them."""
        return attrs.evolve(super().part(batch, mask), behind=None)


def newest_view(own: Own) -> TableView:
    """A copy of the newest value, of a row of a versioned store (``state.version_rows``)."""

    def view(_key: Any, row: Any) -> Any:
        value = None if row is None else row[1][-1][1]
        return value if own is None else own(value)

    return TableView(lambda _: view)


def source_node(
    builder: Builder,
    own: str,
    parent: str,
    spec: StoreSpec,
    value: Serde[Any],
    around: Callable[[TableSource | VersionedSource], Operator] = lambda source: source,
) -> TableNode:
    """Add the operator that puts records into the store of a table, inside of another one."""
    use = TableUse(unnamed=not spec.named)

    as_read = spec.versions is None and builder.is_as_read(parent, value)

    def make(context: TaskContext) -> Operator:
        kept = context.store(spec.name)
        if spec.versions is None:
            return around(TableSource(kept, value, use, as_read))
        dropped = lambda count: context.dropped(own, count)  # noqa: E731
        return around(VersionedSource(kept, value, use, dropped))

    history_ms = None if spec.versions is None else spec.versions.history_ms
    # What is out of the history depends on the latest record of any key: so near to each other,
    # none is out of it because of another.
    flags = NodeFlags(by_key=True, spread_ms=history_ms, values="passed on")
    stored: NodeFlags = {**flags, "values": "stored", "keeps": True} if as_read else flags
    builder.named_processor(own, (parent,), make, writes=spec.name, skip_nulls="key", **stored)
    if spec.source_topic is not None and not spec.named:
        passing = builder.node(own, (parent,), lambda _: UnreadTable(), skip_nulls="key", **flags)
        passing = attrs.evolve(passing, unread=spec)
        builder.graph.source_tables.append(SourceTable(spec.name, passing, lambda: use.olds))
    views = () if history_ms is None else (newest_view(owner(value)),)
    return TableNode(builder, own, use, spec, views, history_ms=history_ms)


def for_newest(name: str, make: Make, versioned: bool) -> Make:
    """The maker of an operator that leaves out changes that came out of order, if there are any."""
    if not versioned:
        return make
    return lambda context: skipping(_SkipBehind(name, context, values=False), make(context))
