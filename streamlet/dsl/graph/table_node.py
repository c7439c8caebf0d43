"""The origin of a table: what the tables and streams that are made of it need to know."""

from __future__ import annotations

from typing import Protocol

import attrs

from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.table_views import TableView
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.copies import Own, owner
from streamlet.errors import TopologyError
from streamlet.state.store_specs import StoreSpec


class WindowsWithGrace(Protocol):
    """Windows that take no record any more once stream time is far enough behind them."""

    @property
    def grace_ms(self) -> int:
        """The time for which they take late records."""
        ...


@attrs.frozen(eq=False)
class TableNode:
    """The origin of a table: its node, the notes on its readers, its rows.

    ``views`` lead from the rows of ``store`` to those of the table; of a versioned store the first
    one leads to the newest value. ``windows`` are those of its keys, if they close and the table
    has their updates. ``history_ms`` is how far back the table can be asked; None: it is not
    versioned.
    """

    builder: Builder
    name: str
    use: TableUse
    store: StoreSpec
    views: tuple[TableView, ...] = ()
    windows: WindowsWithGrace | None = None
    history_ms: int | None = None

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores that its rows are worked out from."""
        return self.store.name, *(store for view in self.views for store in view.stores)

    @property
    def own_row(self) -> Own:
        """Makes copies of rows of its store; None: they cannot change.

        A versioned row is none that a function sees: the first view copies the newest value of it.
        """
        return None if self.store.versions is not None else owner(self.store.value)

    @property
    def own_value(self) -> Own:
        """Makes copies of the values in rows of its store, which may be versioned."""
        versions = self.store.versions
        return owner(self.store.value if versions is None else versions.value)

    def check_joins(self, call: str) -> None:
        """Refuse to join a table whose rows lie by window: joins look rows up by whole keys.

        Raises:
            TopologyError: it is such a table.
        """
        if self.store.window is not None:
            raise TopologyError(
                f"{call}: the rows of table {self.store.name} lie by window, where a join cannot "
                "look them up; to_stream().to_table(store=…) makes a table of them that has them "
                "by their Windowed keys"
            )


class TableFace(Protocol):
    """A ``KTable``, as joins see it."""

    _node: TableNode
    _key: Kind
    _value: Kind
