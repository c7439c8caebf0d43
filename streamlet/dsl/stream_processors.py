"""The part of ``KStream`` that runs users' processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import attrs

from streamlet.dsl.graph.builder import StreamNode
from streamlet.dsl.graph.durations import Duration
from streamlet.dsl.graph.kinds import Kind
from streamlet.dsl.operators.stateless import PassOn
from streamlet.dsl.processors.keyed_state import State
from streamlet.dsl.processors.nodes import Processing
from streamlet.dsl.processors.processor import Processor
from streamlet.dsl.processors.punctuators import PunctuationType
from streamlet.dsl.processors.record import Record
from streamlet.dsl.processors.signatures import (
    S2,
    Forwarded,
    S,
    StateFunction,
    TakesRecords,
    TimerFunction,
    Valued,
)
from streamlet.dsl.processors.state_nodes import StateOptions, takes_state
from streamlet.dsl.processors.store_builders import Stores
from streamlet.errors import TopologyError
from streamlet.serdes import SerdeLike

if TYPE_CHECKING:
    from streamlet.dsl.processors.signatures import StateOrContext
    from streamlet.dsl.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class StreamProcessors(Generic[K, V]):
    """The part of ``KStream`` that runs users' processors."""

    _node: StreamNode
    _key: Kind
    _value: Kind

    @overload
    def process(
        self,
        processor: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[], TakesRecords[K, V]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[Record[K, V]], Forwarded[K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[Record[K, V], StateOrContext[K, K2, V2]], Forwarded[K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: Callable[[Record[K, V], State[K]], Forwarded[K2, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Forwarded[Any, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self,
        processor: StateFunction[K, V, Forwarded[K2, V2], S, K2, V2],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Forwarded[Any, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K2, V2]: ...
    def process(
        self,
        processor: Callable[..., Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: Callable[..., Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K2, V2]:
        """Each record given to a processor of the user's, which forwards any records.

        ``processor`` is a class such as ``streamlet.Processor``, with ``process(record)`` and
        perhaps ``init(context)`` and ``close()``; or a function that returns such an object, one
        for each task; or a function ``(record)`` or ``(record, context)`` that returns or yields
        a ``Record``, or a pair ``(key, value)`` with the time and headers of the record.

        ``stores`` are the stores that the context gives it: ``streamlet.key_value_store()`` and its
        like, or names of stores; those of operators and of global tables can be read only.
        ``key`` and ``value`` are the types of the results, where they are written somewhere and
        cannot be derived. ``schedules`` says whether it calls ``ProcessorContext.schedule``, where
        that is not seen in its code. What groups or joins by the new key goes through a repartition
        topic; the processor itself is given what its task has.

        A function ``(record, state)``, or ``(record, state, context)``, has a dict for each key,
        its ``State``: what it changes there is kept, in a store with a changelog that moves with
        the task. An annotation (``State`` or a dict, ``ProcessorContext``) tells an argument, else
        its name: ``state``, ``context`` or ``ctx``. ``state.timer(at=…)`` has ``on_timer(timer,
        state)`` called at a time, which may return or yield the same; timers are kept like the dict
        and go by ``timers``. ``state`` is a type in place of ``dict``, as a ``TypedDict``; with
        ``ttl`` the dict of a key is dropped so long after its last change, by the timers' time.
        Where the key may have changed, records go through a repartition topic before such a
        function. With a ``name`` the stores are ``NAME-state`` and ``NAME-timers``.

        - Nulls: the processor gets them as None; before a state function a record without a key is
          left out and counted as dropped.
        - Key, timestamp, headers: those of what it forwards; of a timer's pair its time.

        Raises:
            TopologyError: it is no processor, or a store is not there or there twice.

        Examples:
            >>> orders.process(lambda record: (record.key[0], 1), key=str, value=int).to("ones")
            >>> run(orders=[("lamp", 3), ("desk", 10)])
            {'ones': [('l', 1), ('d', 1)]}
        """
        kinds, options = (self._key, self._value), StateOptions(state, on_timer, timers, ttl)
        processing = Processing("process()", self._node, kinds, stores, name)
        added = processing.added(processor, options, schedules, False)
        node = StreamNode(self._node.builder, added.name, rekeyed=True, children=added.children)
        made: KStream[K2, V2] = self._made(
            node,
            node.builder.result(key, added.key, "process()", "key"),
            node.builder.result(value, added.value, "process()", "value"),
        )
        return made

    @overload
    def process_values(
        self,
        processor: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[], TakesRecords[K, V]],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V]], Iterator[Record[K, V2]] | Record[K, V2] | None],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V]], Iterator[V2]],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V]], V2 | None],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V], StateOrContext[K, K, V2]], Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: Callable[[Record[K, V], State[K]], Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Valued[K, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self,
        processor: StateFunction[K, V, Any, S, K, V2],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: TimerFunction[K, Valued[K, Any], S2, Any, Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K, V2]: ...
    def process_values(
        self,
        processor: Callable[..., Any],
        *,
        stores: Stores = (),
        name: str | None = None,
        value: SerdeLike[V2] = None,
        schedules: bool | None = None,
        state: SerdeLike[Any] = None,
        on_timer: Callable[..., Any] | None = None,
        timers: PunctuationType = "stream_time",
        ttl: Duration | None = None,
    ) -> KStream[K, V2]:
        """Like ``process``, with the key of each record kept, and so its partition.

        A function returns or yields values, each with the key, time and headers of the record; or
        records with this key. None that is returned forwards nothing; a null value is
        ``record.with_value(None)``. Punctuators cannot forward, since there is no record; timers
        of state functions can.

        - Nulls: the processor gets them as None; before a state function as of ``process``.
        - Key: kept.
        - Timestamp, headers: those of what it forwards.

        Raises:
            TopologyError: as ``process``.

        Examples:
            >>> def numbered(record, state):
            ...     state["n"] = state.get("n", 0) + 1
            ...     return f"order {state['n']}: {record.value}"
            >>> orders.process_values(numbered, value=str).to("numbered")
            >>> run(orders=[("lamp", 3), ("lamp", 10)])
            {'numbered': [('lamp', 'order 1: 3'), ('lamp', 'order 2: 10')]}
        """
        call, above = "process_values()", self._node
        kinds, options = (self._key, self._value), StateOptions(state, on_timer, timers, ttl)
        processing = Processing(call, above, kinds, stores, name)
        added = processing.added(processor, options, schedules, True)
        rekeyed = above.rekeyed and not takes_state(call, processor, options)
        node = StreamNode(above.builder, added.name, rekeyed, children=added.children)
        kind = above.builder.result(value, added.value, call, "value")
        made: KStream[K, V2] = self._made(node, self._key, kind)
        return made

    def child(self, name: str) -> KStream[K, V]:
        """The records that the processor above forwards to this name, or to all.

        ``ProcessorContext.forward(record, name)`` sends one here. The stream of the processor
        itself then only has those that are forwarded to all.

        - Nulls: kept.
        - Key, timestamp, headers: kept.

        Raises:
            TopologyError: the stream does not come from ``process`` or ``process_values``.

        Examples:
            >>> def sort(record, context):
            ...     context.forward(record, "large" if record.value > 9 else "small")
            >>> sorted_orders = orders.process(sort, key=str, value=int)
            >>> sorted_orders.child("large").to("by-truck")
            >>> sorted_orders.child("small").to("by-hand")
            >>> run(orders=[("lamp", 3), ("desk", 12)])
            {'by-hand': [('lamp', 3)], 'by-truck': [('desk', 12)]}
        """
        above = self._node
        if above.children is None:
            raise TopologyError(f"child({name!r}): the stream is not that of a processor")
        node = f"{above.name}-{name}"
        if name not in above.children:
            above.children.add(name)
            above.builder.named_processor(
                node, (above.name,), lambda _: PassOn(), child=name, values="passed on"
            )
        below = attrs.evolve(above, name=node, children=None)
        made: KStream[K, V] = self._made(below, self._key, self._value)
        return made

    def _made(self, node: StreamNode, key: Kind, value: Kind) -> Any:
        return type(self)(node, key, value)  # type: ignore[call-arg]
