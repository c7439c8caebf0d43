"""The interface between a task and its operators.

An operator is made once per task by the factory that a node of the topology carries. It takes a
batch and returns one; what it keeps, it keeps in the task's stores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from streamlet.batch import Batch, WaitedRecord
from streamlet.types import TaskId


class _OfClasses(type(Protocol)):  # type: ignore[misc]
    """The type of protocols that an object has if its class has their methods and properties.

    Each task asks it of each of its operators, and Python's own answer takes 20 times as long.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return _has_members(instance.__class__, cls)


@lru_cache(maxsize=1024)
def _has_members(one: Hashable, protocol: Hashable) -> bool:
    return all(hasattr(one, name) for name in vars(protocol) if not name.startswith("_"))


class WaitedFailures(Protocol):
    """The error policy, for records that waited in a store and fail when their results are due."""

    @property
    def as_they_came(self) -> bool:
        """True if records are wanted as they came, to try them again or for dead letters."""
        ...

    def waited_failed(
        self, operator: str, at: Batch, waited: WaitedRecord, error: BaseException, attempt: int
    ) -> bool:
        """Apply the policy to one; ``at`` begins with the record that it was due with.

        The operator then gives None as a part and tries it again, if this is true.

        Raises:
            ProcessingError: under the policy ``fail``.
        """
        ...


class TaskContext(Protocol):
    """The services that a task offers its operators when they are made.

    ``now_ms`` is the time of the task's clock at the present step, ms; it never goes back.
    ``stream_time`` is the highest timestamp among its records so far, ms; -1 before the first.
    ``has_headers`` is False where those of records are neither read nor written.
    ``epoch`` is that of the task's present active period: a later owner has a higher one.
    """

    task: TaskId
    application: str
    epoch: int
    now_ms: int
    stream_time: int
    has_headers: bool

    @property
    def failures(self) -> WaitedFailures:
        """The error policy, for records that waited and failed."""
        ...

    @property
    def wall_ms(self) -> Callable[[], int]:
        """A function of the time of day, ms since the epoch."""
        ...

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

    def failed(self, operator: str, at: Batch, error: BaseException) -> None:
        """Apply the error policy to a failure that no input record caused.

        Raises:
            ProcessingError: under the policy ``fail``.
        """
        ...

    def request_commit(self) -> None:
        """Ask for a commit before the next one is due."""
        ...

    def stream_time_at(self, offset: int) -> int:
        """The task's stream time once the record at an offset of this batch was taken, ms."""
        ...

    def stream_time_reached(self, time_ms: int, offset: int) -> tuple[int, int] | None:
        """The first record of this batch, from ``offset`` on, with which stream time is so high.

        Returns:
            Its offset, and the stream time then; None: there is no such record.
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
class OperatorInParts(Protocol, metaclass=_OfClasses):
    """One step on batches whose output may be large; between two parts other tasks may go on."""

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """The step's output for the batch, in order; parts may be empty.

        None: a pause has begun, before a record is tried again.

        Raises:
            OperatorFailed: a user function failed on one record; ``done`` is the output before it
                that was not yet in a part.
        """
        ...


@runtime_checkable
class OrderedOperator(Protocol, metaclass=_OfClasses):
    """An operator in parts, besides, that may take the records of a merged batch in their order.

    It gets them twice: with ``gather`` in the batches in which they are processed, of which it only
    looks up what it needs; then those that it gave as ``gathered``, cut into batches of one input
    each. ``results`` is what these lead to.
    """

    def gather(self) -> None:
        """Begin: batches that come next are only looked up."""
        ...

    def gathered(self) -> list[Batch]:
        """The batches that came, with what was looked up in ``olds``; end of the looking up."""
        ...

    def results(self) -> list[Batch]:
        """The results of these batches, of each input in the order of its records."""
        ...


@runtime_checkable
class HoldingOperator(Protocol, metaclass=_OfClasses):
    """An operator, besides, that holds results back until the task's stores are committed."""

    @property
    def holds(self) -> bool:
        """True if there are some to send."""
        ...

    def release(self) -> Batch | None:
        """The results to send with the commit that is about to be made; None: none."""
        ...


@runtime_checkable
class TimedOperator(Protocol, metaclass=_OfClasses):
    """An operator, besides, whose results may come without a record.

    When it is ``timed``, by the clock, while no record is there for its task; else where a test
    moves stream time on.
    """

    @property
    def timed(self) -> bool:
        """True if it acts by the clock."""
        ...

    def tick(self, at: Batch) -> Iterator[Batch | None]:
        """Its output at this time, in parts; ``at`` is a record that stands for the present.

        None as of ``OperatorInParts``.
        """
        ...


@runtime_checkable
class PunctuatedOperator(Protocol, metaclass=_OfClasses):
    """An operator, besides, with user code that is begun, ended, and called at times.

    ``at`` is a record that stands for the present. Failures go to ``TaskContext.failed``.
    """

    @property
    def punctuations(self) -> int:
        """The calls of punctuators and timers so far."""
        ...

    def begin(self) -> None:
        """Start: the task is about to process its first batch."""
        ...

    def by_stream_time(self, at: Batch) -> Iterator[Batch]:
        """Its output at the stream times of the batch that are still due, in parts."""
        ...

    @property
    def clock_due_ms(self) -> int | None:
        """The time of day at which it is to act next, ms since the epoch; None: at none."""
        ...

    def by_clock(self, at: Batch) -> Iterator[Batch]:
        """Its output at this time of the clock, in parts."""
        ...

    def end(self) -> None:
        """Stop: the task is closed. Nothing is sent any more."""
        ...


class FinalRule(Protocol):
    """The answer to a record whose last try has failed."""

    @property
    def action(self) -> str:
        """``fail``, or another answer."""
        ...


@runtime_checkable
class RetryRule(Protocol):
    """A rule by which calls that fail are made again: a ``streamlet.Retry``."""

    attempts: int

    @property
    def then(self) -> FinalRule:
        """The answer to the last failure."""
        ...

    def pause_ms(self, attempt: int) -> int:
        """The pause behind the failure of so many calls."""
        ...


@runtime_checkable
class CallingOperator(Protocol, metaclass=_OfClasses):
    """An operator whose results come later, from calls that run beside the task."""

    @property
    def concurrency(self) -> int:
        """The most calls that run at a time."""
        ...

    @property
    def timeout_ms(self) -> int | None:
        """The time after which a call fails; None: it may take as long as it likes."""
        ...

    @property
    def retry(self) -> RetryRule | None:
        """The rule for calls that fail, before the error policy is asked; None: there is none."""
        ...

    @property
    def in_order(self) -> bool:
        """True if results go on in the order of the records, else each when its call has ended."""
        ...

    def call(self, key: Any, value: Any) -> Awaitable[Any]:
        """Make the call for a record; its result is the new value."""
        ...

    def lane(self, key: Any) -> Hashable | None:
        """The lane of a key: calls of one lane run one after another; None: at any time."""
        ...


@runtime_checkable
class GatheringOperator(Protocol, metaclass=_OfClasses):
    """An operator, besides, whose records wait for others, to be processed together."""

    @property
    def max_records(self) -> int:
        """The most records that it processes together."""
        ...

    @property
    def max_wait_ms(self) -> int:
        """The longest time that a record waits for others, ms; 0: it waits for none."""
        ...

    def process_together(self, runs: Sequence[Batch]) -> list[Batch] | None:
        """Its output for batches of several partitions at once; None: a function failed.

        Nothing has come of them then, so that each may be processed by itself.
        """
        ...


class OperatorFactory(Protocol):
    """Makes the operator of one task."""

    def __call__(self, context: TaskContext) -> Operator | OperatorInParts | CallingOperator:
        """A new operator bound to the task's stores."""
        ...
