"""Adds users' processors and their stores to a topology."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from streamlet.arguments import check_is
from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.ownership import owner_of_keys
from streamlet.dsl.graph.record_context import is_marked
from streamlet.dsl.graph.row_expiry import timers_of
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.processors.connected import Connected, Connections
from streamlet.dsl.processors.process_operator import Process
from streamlet.dsl.processors.state_nodes import (
    StateOptions,
    repartitioned,
    state_spec,
    takes_state,
    varies,
)
from streamlet.dsl.processors.store_builders import (
    MakeView,
    StoreBuilder,
    Stores,
    global_reader_of,
    reader_of,
)
from streamlet.dsl.processors.suppliers import (
    FunctionProcessor,
    function_types,
    made,
    result_types,
    schedules,
    supplier_of,
)
from streamlet.errors import TopologyError
from streamlet.state.store_specs import StoreSpec
from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.operator import OperatorFactory, OperatorInParts, TaskContext
from streamlet.user_code import shown


@attrs.frozen(eq=False, kw_only=True)
class ProcessorSpec(Connected):
    """A processor of a topology: what makes it, what it is connected with."""

    supplier: Callable[[], Any]
    schedules: bool

    def operator(self, context: TaskContext) -> OperatorInParts:
        """The operator of one task."""
        own, forwarding = self.opened(context, self.schedules)
        times = self.record_times(context)
        return Process(self.name, context, self.supplier(), own, forwarding, self.result, times)

    def with_processor(self, wrap: Callable[[Any], Any]) -> OperatorFactory:
        """The factory of operators that call what ``wrap`` makes of the processor."""
        return attrs.evolve(self, supplier=lambda: wrap(self.supplier())).operator

    def node(self, parent: str, deterministic: bool) -> ProcessorNode:
        """The node of the topology."""
        return ProcessorNode(
            self.name,
            (parent,),
            self.operator,
            self.stores,
            self.reads,
            deterministic=deterministic,
            timed="with punctuators" if self.schedules else "",
            globals=self.globals,
            with_processor=self.with_processor,
        )


@attrs.frozen(eq=False)
class AddedProcessor:
    """A processor that was added: its node, its children, the types of what it forwards."""

    name: str
    children: set[str]
    key: Any
    value: Any


@attrs.frozen
class Processing:
    """Adds processors to a topology.

    Args:
        call: for messages.
        stream: the node above.
        kinds: of the keys and values there.
        stores: that the processor is given.
        name: of its node, if the user gave one.
    """

    call: str
    stream: StreamNode
    kinds: tuple[Kind, Kind]
    stores: Stores
    name: str | None

    def added(
        self, given: Any, options: StateOptions, scheduled: bool | None, fixed_key: bool
    ) -> AddedProcessor:
        """Add the node of a processor, or of functions with state, below the stream.

        Raises:
            TopologyError: it is neither, or a store is not there.
        """
        if takes_state(self.call, given, options):
            return self._with_state(given, options, fixed_key)
        options.check_unused(self.call)
        supplier = supplier_of(self.call, given)
        one = made(self.call, supplier)
        graph = self.stream.builder.graph
        spec = ProcessorSpec(
            name=graph.own_name(
                "KSTREAM-PROCESSVALUES-" if fixed_key else "KSTREAM-PROCESSOR-", self.name
            ),
            supplier=supplier,
            fixed_key=fixed_key,
            schedules=schedules(one) if scheduled is None else scheduled,
            **self._connections(self.stream.builder),
        )
        function = one.function if isinstance(one, FunctionProcessor) else given
        graph.add_processor(spec.node(self.stream.name, not is_marked(function)))
        if isinstance(one, FunctionProcessor):
            return AddedProcessor(spec.name, spec.children, *function_types(function, fixed_key))
        return AddedProcessor(spec.name, spec.children, *result_types(one))

    def _with_state(self, given: Any, options: StateOptions, fixed_key: bool) -> AddedProcessor:
        builder = self.stream.builder
        parent = repartitioned(self.call, self.stream, *self.kinds, self.name)
        spec = state_spec(
            self.call,
            builder,
            given,
            self.kinds[0],
            self.name,
            options,
            fixed_key,
            self._connections(builder),
        )
        builder.graph.add_processor(spec.node(parent, not varies(given, options)))
        return AddedProcessor(spec.name, spec.children, *function_types(given, fixed_key))

    def _connections(self, builder: Builder) -> Connections:
        stores = [self.stores] if isinstance(self.stores, str | StoreBuilder) else self.stores
        views: dict[str, MakeView] = {}
        written: list[str] = []
        globals_: list[str] = []
        check_is(f"{self.call}, stores=", stores, (Iterable,), "a sequence of stores and names")
        for given in stores:
            table = builder.graph.global_table(given) if isinstance(given, str) else None
            if table is not None:
                name, view = table.store.name, global_reader_of(table)
                globals_.append(name)
            else:
                name, view, names = self._connected(builder, given)
                written += names
            if name in views:
                raise TopologyError(f"{self.call}: store {name!r} is in stores= twice")
            views[name] = view
        return {
            "views": views,
            "written": tuple(written),
            "globals": tuple(globals_),
            "own_key": owner_of_keys(self.kinds[0]),
        }

    def _connected(self, builder: Builder, given: Any) -> tuple[str, MakeView, tuple[str, ...]]:
        """The name and the view of a task's store, and the names of stores that this may write."""
        spec, by = self._store(builder, given)
        if by is not None:
            return spec.name, by.view, by.names
        return spec.name, reader_of(spec), () if spec.ttl_ms is None else (timers_of(spec.name),)

    def _store(self, builder: Builder, given: Any) -> tuple[StoreSpec, StoreBuilder[Any] | None]:
        """A store, and what made it; None for one that an operator keeps."""
        known = builder.processor_stores
        if isinstance(given, StoreBuilder):
            if given.name not in known:
                known[given.name] = given, given.added(builder)
            one, spec = known[given.name]
            if one is not given:
                raise TopologyError(
                    f"{self.call}: two builders make a store named {given.name!r}; give the "
                    "processors that share it the same builder"
                )
            return spec, given
        if not isinstance(given, str):
            raise TopologyError(
                f"{self.call}: stores= takes stores such as key_value_store(name, key=…, value=…) "
                f"and names of stores, not {shown(given)}"
            )
        if given in known:
            return known[given][1], known[given][0]
        found = builder.graph.store(given)
        if found is None:
            raise TopologyError(
                f"{self.call}: there is no store {shown(given)}: no operator before it keeps one "
                "of this name; give a new one itself, as key_value_store(name, key=…, value=…)"
            )
        return found, None
