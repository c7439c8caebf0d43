"""``RecordContext``: where a record comes from, and its headers, for functions that ask for it.

A function asks with ``with_context``. Only operators with such a function are wrapped in
``InContext``; no other operator, and no other batch, pays for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, TypeVar, overload

import attrs

from streamlet.absent import explained_in_errors
from streamlet.arguments import check_callable, told_by_form
from streamlet.batch import Batch, OperatorFailed
from streamlet.kafka.ports import Headers
from streamlet.topology.operator import Operator, TaskContext
from streamlet.user_code import shown

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

Function = Callable[..., Any]

#: The attribute of functions and factories by which ``determinism.non_deterministic`` is known.
MARK = "_streamlet_non_deterministic"


@explained_in_errors
class RecordContext:
    """The origin of the record of a call, its timestamp and its headers.

    It describes the record during the call only: the next call has the same object. Made by
    operators, for functions given by ``with_context``.
    """

    __slots__ = ("_batch", "_headers", "_index")

    _batch: Batch
    _headers: list[Headers | None]
    _index: int

    @property
    def topic(self) -> str:
        """The topic that the record was read from, behind a ``repartition()`` the internal one."""
        return self._batch.topic

    @property
    def partition(self) -> int:
        """Its partition there."""
        return self._batch.partition

    @property
    def offset(self) -> int:
        """Its offset there; results of a ``flat_map`` share that of their record."""
        return self._batch.offsets[self._index]

    @property
    def timestamp(self) -> int:
        """Its timestamp, ms since the epoch; ``timestamp=`` of the source may have computed it."""
        return self._batch.timestamps[self._index]

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The record's headers in order, as pairs of name and value; names may repeat.

        Set to other pairs, they are the headers of what the operator makes of the record.

        Raises:
            TypeError: what it is set to are no pairs of a name and bytes or None.
        """
        return tuple(self._headers[self._index] or ())

    @headers.setter
    def headers(self, headers: Iterable[tuple[str, bytes | None]]) -> None:
        self._headers[self._index] = [checked_header(one) for one in headers]

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this name; None without one."""
        found = [value for other, value in self._headers[self._index] or () if other == name]
        return found[-1] if found else None

    def add_header(self, name: str, value: bytes | None) -> None:
        """Put a header behind the others; raises as ``headers``."""
        self.headers = (*self.headers, (name, value))

    def set_header(self, name: str, value: bytes | None) -> None:
        """Put a header in place of all headers of this name; raises as ``headers``."""
        self.remove_header(name)
        self.add_header(name, value)

    def remove_header(self, name: str) -> None:
        """Remove all headers of this name, if there are any."""
        self.headers = tuple(one for one in self.headers if one[0] != name)

    def _begin(self, batch: Batch, headers: list[Headers | None]) -> None:
        """Describe these records, one per call; what is set goes into ``headers``."""
        self._batch, self._headers, self._index = batch, headers, -1

    def _bound(self, function: Function) -> Function:
        """The function with this as its last argument."""

        def bound(*arguments: Any) -> Any:
            self._index += 1
            return function(*arguments, self)

        return bound


def checked_header(given: Any) -> tuple[str, bytes | None]:
    """A header as Kafka takes it.

    Raises:
        TypeError: it is no pair of a name and bytes or None.
    """
    pair = tuple(given) if isinstance(given, tuple | list) else ()
    if list(map(type, pair)) not in ([str, bytes], [str, NoneType]):
        raise TypeError(f"expected a header as a pair of str and bytes or None, got {shown(given)}")
    pair[0].encode()  # what is no Unicode text fails here, not in the producer
    return pair


@attrs.frozen
class ContextFunction:
    """A user's function that is given the ``RecordContext`` as its last argument."""

    function: Function

    def __call__(self, *arguments: Any) -> Any:
        """The function's result; the context is among the arguments."""
        return self.function(*arguments)


@overload
def with_context(function: Callable[[V, RecordContext], R]) -> Callable[[V], R]: ...
@overload
def with_context(function: Callable[[K, V, RecordContext], R]) -> Callable[[K, V], R]: ...
@told_by_form
def with_context(function: Function) -> Any:
    """Gives a function the ``RecordContext`` as its last argument, behind the key and the value.

    For the functions of stateless operators of a stream, and of ``group_by``. A decorator, too.

    Raises:
        TopologyError: it is no function.
    """
    check_callable("with_context()", function, "a function")
    return ContextFunction(function)


@attrs.frozen
class InContext:
    """An operator whose function is given the context of each record.

    The operator calls its function once per record and in order, and takes the headers of its
    output from its batch afterwards: by then they are those that the function has set.
    """

    inner: Operator
    context: RecordContext

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as ``inner`` does."""
        given = batch.headers
        headers: list[Any] = [None] * len(batch) if given is None else list(given)
        self.context._begin(batch, headers)
        part = attrs.evolve(batch, headers=headers)
        try:
            out = self.inner.process(part)
        except OperatorFailed as failed:
            done = _with_some(failed.done)
            raise failed.at(failed.index, done) from failed.__cause__
        return _with_some(out)


def _with_some(out: Batch) -> Batch:
    """The batch, without a column of headers if no record has any."""
    return out if out.headers and any(out.headers) else attrs.evolve(out, headers=None)


def applied(
    function: Function, make: Callable[[Function], Operator]
) -> Callable[[TaskContext], Operator]:
    """A factory of operators with a user's function, whether it asks for the context or not."""
    factory = _factory(function, make)
    if is_marked(function):
        setattr(factory, MARK, True)
    return factory


def is_marked(function: object) -> bool:
    """True for a function that was declared non-deterministic, and for a factory with one."""
    if isinstance(function, ContextFunction):
        function = function.function
    return getattr(function, MARK, False) is True


def _factory(
    function: Function, make: Callable[[Function], Operator]
) -> Callable[[TaskContext], Operator]:
    if not isinstance(function, ContextFunction):
        return lambda _: make(function)
    asking = function.function

    def made(_: TaskContext) -> Operator:
        context = RecordContext()
        return InContext(make(context._bound(asking)), context)

    return made
