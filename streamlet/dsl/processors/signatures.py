"""The types of what ``process`` and ``process_values`` take, for type checkers.

At run time ``argument_roles`` goes by annotations and by names; a type checker knows annotations
only, so it takes an argument without one for whatever fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from streamlet.dsl.processors.keyed_state import State, Timer
from streamlet.dsl.processors.processor import ProcessorContext
from streamlet.dsl.processors.record import Record

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
KIn = TypeVar("KIn", contravariant=True)
VIn = TypeVar("VIn", contravariant=True)
#: The state of a key as its function takes it: ``State``, a dict or a ``TypedDict``.
S = TypeVar("S", bound=Mapping[str, Any])
#: The same, of the function of timers.
S2 = TypeVar("S2", bound=Mapping[str, Any])
#: What a function returns.
R = TypeVar("R")


class TakesRecords(Protocol[KIn, VIn]):
    """An object that is a processor without being derived from ``Processor``."""

    def process(self, record: Record[KIn, VIn], /) -> Any:
        """Take a record."""
        ...


if TYPE_CHECKING:

    class StateOrContext(State[K], ProcessorContext[K2, V2]):
        """The second argument of a function of two, which may be either.

        A lambda, whose arguments have no annotation, is seen to be given both.
        """


#: What a function of ``process`` returns: nothing, one record or pair, or it yields several.
Forwarded: TypeAlias = (
    Record[K2, V2]
    | tuple[K2, V2]
    | Iterator[Record[K2, V2]]
    | Iterator[tuple[K2, V2]]
    | Iterator[Record[K2, V2] | tuple[K2, V2]]
    | None
)
#: What a function of ``process_values`` returns: a value or a record, or it yields several.
Valued: TypeAlias = Iterator[Record[K, V2]] | Iterator[V2] | Record[K, V2] | V2 | None
#: A function of the record and the state of its key.
StateFunction: TypeAlias = (
    Callable[[Record[K, V]], R]
    | Callable[[Record[K, V], S], R]
    | Callable[[Record[K, V], S, ProcessorContext[K2, V2]], R]
    | Callable[[Record[K, V], ProcessorContext[K2, V2], S], R]
)
#: A function of a timer that is due.
TimerFunction: TypeAlias = (
    Callable[[Timer[K]], R]
    | Callable[[Timer[K], S2], R]
    | Callable[[Timer[K], ProcessorContext[K2, V2]], R]
    | Callable[[Timer[K], S2, ProcessorContext[K2, V2]], R]
    | Callable[[Timer[K], ProcessorContext[K2, V2], S2], R]
)
