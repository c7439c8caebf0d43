"""The interface between a task and its operators.

An operator is made once per task by the factory that a node of the topology carries. It takes a
batch and returns one; what it keeps, it keeps in the task's stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

from streamlet.batch import Batch
from streamlet.types import TaskId


class KeyValueStore(Protocol):
    """A key-value store of one task as operators and users see it: Python keys and values.

    The ``1``/``True``/``1.0`` trap is the store's business: keys that are one dict key but not one
    record key stay apart.
    """

    name: str

    def get(self, key: Any) -> Any | None:
        """The value, or None."""
        ...

    def put(self, key: Any, value: Any | None) -> None:
        """Set, or delete with None."""
        ...

    def range(self, low: Any | None = None, high: Any | None = None) -> Any:
        """Iterate ``(key, value)`` from low to high (both inclusive) in the order of key bytes."""
        ...

    def prefix(self, prefix: Any) -> Any:
        """Iterate ``(key, value)`` whose key bytes begin with the prefix's."""
        ...

    def delete_range(self, low: Any, high: Any) -> None:
        """Delete from low (inclusive) to high (exclusive)."""
        ...


class TaskContext(Protocol):
    """The services that a task offers its operators when they are made.

    ``now_ms`` is the time of the task's clock at the present step, ms.
    """

    task: TaskId
    application: str
    now_ms: int

    def store(self, name: str) -> Any:
        """The task's own store of that name (see ``state/``)."""
        ...

    def dropped(self, operator: str, count: int) -> None:
        """Count records an operator leaves out by rule (a null key in an aggregation)."""
        ...

    def late(self, operator: str, count: int, records: Callable[[], Batch]) -> None:
        """Count records an operator leaves out of a window that is closed, once per window.

        ``records`` makes a batch of them, for a node that is aside of the operator's.
        """
        ...


class Operator(Protocol):
    """One step on batches."""

    def process(self, batch: Batch) -> Batch:
        """The step's output for the batch; an empty batch if nothing is left.

        Raises:
            OperatorFailed: a user function failed on one record.
        """
        ...


@runtime_checkable
class OperatorInParts(Protocol):
    """One step on batches whose output may be large; between two parts other tasks may go on."""

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """The step's output for the batch, in order; parts may be empty.

        Raises:
            OperatorFailed: a user function failed on one record; ``done`` is the output before it
                that was not yet in a part.
        """
        ...


@runtime_checkable
class HoldingOperator(Protocol):
    """An operator, besides, that holds results back until the task's stores are committed."""

    def release(self) -> Batch | None:
        """The results to send with the commit that is about to be made; None: none."""
        ...


@runtime_checkable
class TimedOperator(Protocol):
    """An operator, besides, whose results may come without a record.

    When it is ``timed``, by the clock, while no record is there for its task; else where a test
    moves stream time on.
    """

    @property
    def timed(self) -> bool:
        """True if it acts by the clock."""
        ...

    def tick(self, at: Batch) -> Iterator[Batch]:
        """Its output at this time, in parts; ``at`` is a record that stands for the present."""
        ...


class OperatorFactory(Protocol):
    """Makes the operator of one task."""

    def __call__(self, context: TaskContext) -> Operator | OperatorInParts:
        """A new operator bound to the task's stores."""
        ...
