"""The Processor API: what a user's processor is, and the context that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import attrs

from streamlet.absent import explains_misuse, no_operator
from streamlet.arguments import check_callable, never_by_hand, never_copied
from streamlet.dsl.graph.durations import Duration, milliseconds
from streamlet.dsl.graph.functions import check_takes
from streamlet.dsl.processors.forwarded import Forwarding
from streamlet.dsl.processors.punctuators import (
    Cancellable,
    PunctuationType,
    Punctuator,
    Punctuators,
)
from streamlet.dsl.processors.record import Record, RecordMetadata
from streamlet.dsl.processors.store_builders import StoreBuilder
from streamlet.dsl.processors.store_views import seen_as
from streamlet.errors import NotFoundError, TopologyError
from streamlet.topology.operator import TaskContext
from streamlet.types import TaskId
from streamlet.user_code import listed, shown

K = TypeVar("K")
V = TypeVar("V")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
S = TypeVar("S")


@never_copied("each processor has one of its own")
@explains_misuse
@never_by_hand(
    "process() gives each processor its own, in init; a TopologyTestDriver does so in tests", at=2
)
@attrs.define(eq=False, repr=False, slots=False)
class ProcessorContext(Generic[KOut, VOut]):
    """The services of a task for one processor, which gets it in ``init``.

    Made by ``process`` and ``process_values``, one for each task.
    """

    _name: str
    _task: TaskContext
    _forwarding: Forwarding
    _views: Mapping[str, Callable[[ProcessorContext[Any, Any]], Any]]
    _schedules: bool
    _stores: dict[str, Any] = attrs.field(factory=dict, init=False)
    _metadata: tuple[str, int] = attrs.field(default=("", 0), init=False)
    _punctuators: dict[str, Punctuators] = attrs.field(
        factory=lambda: {"stream_time": Punctuators(), "wall_clock": Punctuators()}, init=False
    )

    @property
    def application_id(self) -> str:
        """The application's name."""
        return self._task.application

    @property
    def task_id(self) -> TaskId:
        """The task that the processor belongs to."""
        return self._task.task

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The place where the record of the call was read; None in punctuators and timers."""
        forwarding = self._forwarding
        if forwarding.record is None or forwarding.offset is None:
            return None
        return RecordMetadata(*self._metadata, forwarding.offset)

    @property
    def stream_time(self) -> int:
        """The highest timestamp that the task has seen, ms since the epoch; -1 before a record.

        It is -1 again once the task was opened again: it is not kept.
        """
        offset = self._forwarding.offset
        return self._task.stream_time if offset is None else self._task.stream_time_at(offset)

    @property
    def wall_clock_time(self) -> int:
        """The time of day, ms since the epoch."""
        return self._task.wall_ms()

    @overload
    def store(self, store: str, /) -> Any: ...
    @overload
    def store(self, store: str, kind: type[S], /) -> S: ...
    @overload
    def store(self, store: StoreBuilder[S], /) -> S: ...
    def store(self, store: Any, kind: Any = None, /) -> Any:
        """A store of the task that ``stores=`` names.

        - ``store(name)``: for code without types.
        - ``store(name, KeyValueStore[str, int])``: with its kind, which is checked, and its types,
          which are believed. The rows of a table are a ``TimestampedStore`` or a ``KeyValueStore``.
        - ``store(built)``: one that was built for ``stores=``, with the types that it has there.

        Raises:
            NotFoundError: ``stores=`` names no such store.
            TypeError: it is of another kind.
        """
        name = store if isinstance(store, str) else store.name
        if name not in self._stores:
            if name not in self._views:
                known = listed(sorted(self._views)) or "none"
                raise NotFoundError(f"{self._name} has no store {shown(name)}; stores= has {known}")
            self._stores[name] = self._views[name](self)
        found = self._stores[name]
        return found if kind is None else seen_as(found, kind)

    def forward(self, record: Record[KOut, VOut], to: str | None = None) -> None:
        """Send a record to all children, or to the one of a name (``ProcessedKStream.child``).

        Raises:
            NotFoundError: there is no child of this name.
            StreamletError: neither a record is processed nor a punctuator called.
            TypeError: it is no ``Record``, or Kafka cannot keep it.
            ValueError: ``process_values`` keeps the key, and this is another one.
        """
        self._forwarding.forward(record, to)

    def schedule(
        self, interval: Duration, by: PunctuationType, punctuator: Punctuator
    ) -> Cancellable:
        """Call ``punctuator(time_ms)`` at intervals of stream time, or of wall-clock time.

        By ``"stream_time"``: behind the record with which stream time comes to a multiple of the
        interval, so the first record calls it at once. By ``"wall_clock"``: first one interval from
        now, whether there are records or not. One call makes up for missed ones. It is not kept
        over a restart or a hand-over, so it is set in ``init``, as in Kafka Streams; the timers of
        state functions are kept.

        A record or pair that the punctuator returns is forwarded, and so are those it yields;
        between many of them other tasks may go on.

        Raises:
            TopologyError: the interval is no duration, the function takes other arguments, or the
                topology was built without knowing of punctuators.
            TypeError: ``punctuator`` is no function.
        """
        if by not in self._punctuators:
            raise TopologyError(f"schedule(by={shown(by)}): expected 'stream_time' or 'wall_clock'")
        if not self._schedules:
            raise TopologyError(
                f"{self._name}: schedule() was not seen in the code of the processor's class, but "
                "the topology has to know of it: pass schedules=True to process()"
            )
        check_callable("schedule()", punctuator, "a function of the time")
        check_takes("schedule()", punctuator, "time_ms", yields=True)
        interval_ms = milliseconds("schedule(): interval", interval, 1)
        first = self.wall_clock_time + interval_ms if by == "wall_clock" else 0
        return self._punctuators[by].add(first, interval_ms, punctuator)

    def commit(self) -> None:
        """Ask for a commit soon, without waiting for the commit interval."""
        self._task.request_commit()


class Processor(Generic[K, V, KOut, VOut]):
    """A base for the classes of processors; any class with ``process`` will do.

    ``process`` and ``process_values`` make one for each task. ``Processor[str, int, str, float]``
    takes keys str and values int, and forwards keys str and values float: then ``process`` needs no
    ``key=`` and ``value=``.
    """

    context: ProcessorContext[KOut, VOut]

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError; that of the context and of its calls says where it is."""
            if name != "context":
                return no_operator(self, name)
            raise AttributeError(
                f"{type(self).__name__} has no context yet: it has one from init(context) on, and "
                "an init() of its own calls super().init(context) first"
            )

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Begin: the task is about to run. Stores are restored; nothing can be forwarded yet."""
        self.context = context

    def process(self, record: Record[K, V]) -> Any:
        """Take a record.

        What it returns or yields is forwarded, if it is a ``Record`` or a pair ``(key, value)``;
        with ``process_values`` any other value counts as that of the record.
        """
        raise NotImplementedError(f"{type(self).__name__} has no process()")

    def close(self) -> None:
        """End: the task is closed or moves to another process. Nothing can be forwarded."""
