"""Adds state functions to a topology: functions ``(record, state)`` with a dict for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from streamlet.dsl.graph.builder import Builder
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.graph.materialized import Materialized
from streamlet.dsl.graph.record_context import is_marked
from streamlet.dsl.graph.repartitions import Repartition
from streamlet.dsl.graph.stream_node import StreamNode
from streamlet.dsl.processors.argument_roles import roles
from streamlet.dsl.processors.connected import Connected, Connections
from streamlet.dsl.processors.punctuators import PunctuationType
from streamlet.dsl.processors.state_operator import StateFunctions, StateProcess
from streamlet.dsl.processors.suppliers import check_awaits_nothing, parameters
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.state.store_specs import StoreSpec
from streamlet.state.timer_store import timer_rows
from streamlet.topology.nodes import ProcessorNode
from streamlet.topology.operator import OperatorInParts, TaskContext
from streamlet.user_code import shown


@attrs.frozen
class StateOptions:
    """The arguments of ``process`` that are for state functions."""

    state: Any = None
    on_timer: Callable[..., Any] | None = None
    timers: PunctuationType = "stream_time"
    ttl: Duration | None = None

    @property
    def some(self) -> bool:
        """True if one of them is given."""
        others = self.state, self.on_timer, self.ttl
        return self.timers != "stream_time" or any(one is not None for one in others)

    def check_unused(self, call: str) -> None:
        """Refuse options of state functions for other processors.

        Raises:
            TopologyError: one is given.
        """
        if self.some:
            raise TopologyError(
                f"{call}: state=, on_timer=, timers= and ttl= are for a function (record, state)"
            )


def takes_state(call: str, given: Any, options: StateOptions) -> bool:
    """True for a function that takes the state of the key behind the record.

    Raises:
        TopologyError: it cannot be told what the function takes.
    """
    if isinstance(given, type) or not callable(given) or hasattr(given, "process"):
        return False
    return "state" in roles(call, given, of_state=options.some)


@attrs.frozen(eq=False, kw_only=True)
class StateSpec(Connected):
    """State functions of a topology, with their stores."""

    rules: StateFunctions
    store: StoreSpec
    timers: StoreSpec | None

    def operator(self, context: TaskContext) -> OperatorInParts:
        """The operator of one task."""
        own, forwarding = self.opened(context, False)
        timers = None if self.timers is None else context.store(self.timers.name)
        store = context.store(self.store.name)
        noting = self.record_times(context).noting
        rules = attrs.evolve(self.rules, function=noting(self.rules.function))
        return StateProcess(self.name, context, rules, store, timers, own, forwarding, self.result)

    def node(self, parent: str, deterministic: bool) -> ProcessorNode:
        """The node of the topology."""
        own = (self.store.name, *(() if self.timers is None else (self.timers.name,)))
        timed = self.timers is not None and self.rules.by_clock
        return ProcessorNode(
            self.name,
            (parent,),
            self.operator,
            (*own, *self.stores),
            self.reads,
            deterministic=deterministic,
            timed="by the clock" if timed else "",
            globals=self.globals,
        )


def state_spec(
    call: str,
    builder: Builder,
    function: Callable[..., Any],
    key: Kind,
    name: str | None,
    options: StateOptions,
    fixed_key: bool,
    connections: Connections,
) -> StateSpec:
    """State functions with the stores that they need.

    Raises:
        TopologyError: a function takes something else, or there is no serde.
    """
    if options.timers not in ("stream_time", "wall_clock"):
        raise TopologyError(
            f"{call}: timers={shown(options.timers)}: expected 'stream_time' or 'wall_clock'"
        )
    ttl_ms = None if options.ttl is None else milliseconds(f"{call}: ttl", options.ttl, 1)
    keys = key.needed(call, "key")
    values = Kind.given(dict if options.state is None else options.state, call, "state")
    on_timer = options.on_timer
    rules = StateFunctions(
        call,
        _called(call, function, "record"),
        None if on_timer is None else _called(f"{call}: on_timer", on_timer, "timer"),
        keys,
        values.needed(call, "state"),
        options.timers == "wall_clock",
        ttl_ms,
    )
    store = _store(builder, name, "state", keys, rules.value)
    timers = None
    if on_timer is not None or ttl_ms is not None:
        timers = _store(builder, name, "timers", keys, timer_rows(), timers=True)
    own = builder.graph.own_name("KSTREAM-PROCESSOR-", name)
    return StateSpec(
        name=own, rules=rules, store=store, timers=timers, fixed_key=fixed_key, **connections
    )


def varies(function: Callable[..., Any], options: StateOptions) -> bool:
    """True if one of the functions was declared non-deterministic."""
    return is_marked(function) or is_marked(options.on_timer)


def repartitioned(call: str, stream: StreamNode, key: Kind, value: Kind, name: str | None) -> str:
    """The node below which the records of one key are in one task.

    Raises:
        TopologyError: the types of what is sent through a topic are not known.
    """
    if not stream.rekeyed:
        return stream.name
    builder = stream.builder
    how = Repartition(
        prefix=name or builder.graph.new_name("KSTREAM-PROCESSOR-"),
        key=key.needed(call, "key", takes=False),
        value=value.needed(call, "value", takes=False),
        named=name is not None,
    )
    return builder.repartition(stream.name, how)


def _store(
    builder: Builder, name: str | None, of: str, key: Serde[Any], value: Serde[Any], **kind: bool
) -> StoreSpec:
    how = None if name is None else Materialized(f"{name}-{of}")
    return builder.store(how, "KSTREAM-PROCESSOR-", key, value, **kind)  # type: ignore[arg-type]


def _called(call: str, function: Callable[..., Any], first: str) -> Callable[[Any, Any, Any], Any]:
    """A function of the first argument, the state and the context, for one that takes some."""
    check_awaits_nothing(call, function)
    names = parameters(function)
    adapted = _adapted(call, function, first, names)
    adapted.__wrapped__ = function  # type: ignore[attr-defined]  # messages name it
    return adapted


def _adapted(
    call: str, function: Callable[..., Any], first: str, names: tuple[str, ...]
) -> Callable[[Any, Any, Any], Any]:
    match roles(call, function, of_state=True, first=first):
        case ():
            if not names:
                raise TopologyError(f"{call} calls its function with a {first}, but it takes none")
            return lambda given, state, context: function(given)
        case ("state",):
            return lambda given, state, context: function(given, state)
        case ("context",):
            return lambda given, state, context: function(given, context)
        case ("state", "context"):
            return lambda given, state, context: function(given, state, context)
        case ("context", "state"):
            return lambda given, state, context: function(given, context, state)
        case _:
            raise TopologyError(
                f"{call} calls its function as ({first}, state) or ({first}, state, context), but "
                f"it takes ({', '.join(names)})"
            )
