"""Stores, children and context, as processors and state functions have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import attrs

from streamlet.dsl.graph.row_expiry import timers_of
from streamlet.dsl.operators.copies import Own
from streamlet.dsl.processors.forwarded import Forwarding
from streamlet.dsl.processors.processor import ProcessorContext
from streamlet.dsl.processors.store_builders import MakeView
from streamlet.dsl.processors.store_expiry import RecordTimes
from streamlet.dsl.processors.store_view import count_dropped
from streamlet.dsl.processors.suppliers import as_record, as_value
from streamlet.state.rows import NO_TIME
from streamlet.topology.operator import TaskContext


class Connections(TypedDict):
    """Stores of a node, and the names of those it may write and of those of global tables.

    ``own_key`` as of ``Connected``.
    """

    views: Mapping[str, MakeView]
    written: tuple[str, ...]
    globals: tuple[str, ...]
    own_key: Own


@attrs.frozen(eq=False, kw_only=True)
class Connected:
    """A node of users' code with the stores and children that it is connected with.

    ``views`` show its stores; ``written`` are those that it may write, ``globals`` those of global
    tables, which belong to no task. ``children`` are the names that records may be forwarded to,
    which are added later. ``own_key`` makes copies of keys, for users' code; None: they cannot
    change.
    """

    name: str
    fixed_key: bool
    views: Mapping[str, MakeView]
    written: tuple[str, ...]
    globals: tuple[str, ...]
    own_key: Own
    children: set[str] = attrs.field(factory=set)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stores of its task that it may not write."""
        return tuple(name for name in self.stores if name not in self.written)

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores of its task."""
        views = (name for name in self.views if name not in self.globals)
        return tuple(dict.fromkeys((*views, *self.written)))

    @property
    def result(self) -> Callable[..., Any]:
        """The function that makes a record of what users' code returns."""
        return as_value if self.fixed_key else as_record

    def opened(
        self, context: TaskContext, schedules: bool
    ) -> tuple[ProcessorContext[Any, Any], Forwarding]:
        """The context of users' code in one task, and where it takes forwarded records."""
        # A look at the topology has no task.
        how = self.fixed_key, context is None or context.has_headers, self.own_key
        forwarding = Forwarding(self.name, self.children, *how)

        def called_at() -> int:
            """The time of the punctuator that is called; none with a record."""
            return own.stream_time if schedules and forwarding.record is None else NO_TIME

        def dropped(count: int) -> None:
            context.dropped(self.name, count)

        def shown(view: MakeView) -> Any:
            """A store, which counts what is too old to be put."""
            found = view(context, called_at)
            count_dropped(found, dropped)
            return found

        stores = {name: (lambda own, view=view: shown(view)) for name, view in self.views.items()}
        own = ProcessorContext[Any, Any](self.name, context, forwarding, stores, schedules)
        return own, forwarding

    def record_times(self, context: TaskContext) -> RecordTimes:
        """The times of those stores of one task whose entries expire."""
        beside = (timers_of(name) for name in self.views)
        return RecordTimes(tuple(context.store(name) for name in beside if name in self.written))
