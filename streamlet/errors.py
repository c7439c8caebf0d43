"""One tree of errors.

Operating errors are raised where they are known, bear Kafka's names where it has one, and are
handled in one place, the worker. A programming error of ours is an ``AssertionError``.
Foreign exceptions become one of these at the edge that met them (``kafka/client``,
``coordinator/session``, ``state/rocksdb``, ``serdes``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from streamlet.rights import Right, missing
from streamlet.types import TaskId, TopicPartition
from streamlet.user_code import cut, raised_at, text_of, users_places
from streamlet.visible import visible

#: Exit codes that starting again cannot mend: usage, not found, refused, fenced, shut down.
FINAL_CODES = frozenset({2, 3, 5, 6, 7})

#: What to look at where no broker answers.
BROKER_ADVICE = "Is the broker running, and is the address right (--bootstrap-servers)?"
#: What a client lacks before it asks a broker anything.
NO_TOKEN = "no token to log in with"

#: Characters of the message of an error of others', which may have a whole value in it.
_MOST_MESSAGE = 4_000
#: Lines of the program that a notebook shows of an error, and where the rest is.
_MOST_LINES = 10
_WHOLE = "(all lines: import sys, traceback; traceback.print_exception(sys.last_value))"


def broker_advice(error: object) -> str:
    """The question about the broker; empty for an error that has it, or another reason."""
    return "" if any(one in str(error) for one in (BROKER_ADVICE, NO_TOKEN)) else BROKER_ADVICE


def error_text(error: BaseException) -> str:
    """Describe an error of the user's program, its own line first, without traceback."""
    message = cut(_missing(error) or text_of(error), _MOST_MESSAGE)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = raised_at(error)
    return text if place is None else f"{place}: {text}"


def _missing(error: BaseException) -> str | None:
    """The message for a name that an object of streamlet does not have; None for other errors."""
    from streamlet.absent import hint  # which raises errors of this module

    return hint(error)


class StreamletError(Exception):
    """Root of everything streamlet raises on purpose. ``exit_code`` is what a command ends with."""

    exit_code = 1
    #: Whether a worker that ended so is not started again, as only a person can mend it.
    final = False

    #: Whether trying again may help without any action: a broker is away.
    passing = False

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython and Jupyter show in place of the traceback.

        The message has the line of the user's function that failed; besides there are the lines of
        the program by which it came to run, and none of ours.
        """
        text = visible(text_of(self))
        lines = [visible(f"  {place}") for place in users_places(self)[-_MOST_LINES:]]
        return [f"{type(self).__name__}: {text}", *lines, _WHOLE]


class ConfigError(StreamletError):
    """Settings that cannot be: every problem at once, a line each."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class TopologyError(StreamletError):
    """A topology that cannot be built or cannot run over the topics that exist."""

    exit_code = 2


class WrongTypeError(TopologyError, TypeError):
    """An argument that a call does not take: of another type, under another name, or missing."""


class WrongValueError(StreamletError, ValueError):
    """An argument that cannot be though its type is right, or a call at a time when none can be."""

    exit_code = 2


class AppNotFoundError(StreamletError):
    """The ``module:attribute`` given does not lead to an application."""

    exit_code = 3


class NotFoundError(StreamletError):
    """No such application, instance, group or topic."""

    exit_code = 3


class TimedOutError(StreamletError):
    """An expected event did not happen in time."""

    exit_code = 4
    passing = True  # it may happen next time


class NoSuchGroupError(NotFoundError):
    """No group has an application's name: it has never run, or was deleted."""


class WithdrawnError(StreamletError):
    """The awaited outcome will not come: it was withdrawn, or cut short."""


class RefusedError(StreamletError):
    """Refused as it stands: needs ``--yes``, or members that must be gone are alive."""

    exit_code = 5


class ApplicationShutdownError(StreamletError):
    """The ``uncaught_handler`` of some instance shut the application down everywhere."""

    exit_code = 7


class UncaughtHandlerError(StreamletError):
    """The ``uncaught_handler`` failed on the error that ended a worker; the message has both."""


class BrokerError(StreamletError):
    """The broker cannot be reached, is too old, or answered with an error we cannot mend."""


class BrokerTooOldError(BrokerError):
    """The broker lacks what we need; another address or a newer Kafka is needed."""

    exit_code = 2


class UnreachableError(BrokerError):
    """The broker does not answer."""

    passing = True  # it may be back at any moment


class AuthenticationError(BrokerError):
    """The broker answers and refuses the login or the certificate, or we refuse the broker's."""


class MissingRightError(BrokerError):
    """The broker refuses a request for want of a right; the message has the command to grant it."""

    final = True


class MissingTopicError(BrokerError):
    """A topic does not exist that is to be read; ``topics`` are those that a broker was asked for.

    Without any it was not asked for one by one. A broker also hides topics: ``hidden`` are those of
    which that may be so, and ``operation`` what they are wanted for; those of them in ``written``
    are to be written.
    """

    exit_code = 3

    def __init__(
        self,
        reason: str,
        topics: Iterable[str] = (),
        *,
        hidden: Sequence[str] = (),
        operation: str = "READ",
        written: Collection[str] = (),
    ) -> None:
        rights = (
            Right("WRITE" if name in written else operation, "topic", name)
            for name in sorted(hidden)
        )
        hint = f". If it does exist: {missing(*rights)}" if hidden else ""
        super().__init__(f"{reason}{hint}")
        self.topics = frozenset(topics)


class DeletionDisabledError(BrokerError):
    """The brokers do not allow to delete topics (``delete.topic.enable``)."""


class OutOfRangeError(BrokerError):
    """A partition has no record at the offset it is read from: retention or a purge took it."""

    def __init__(self, reason: str, partition: TopicPartition) -> None:
        super().__init__(reason)
        self.partition = partition


class DeliveryError(BrokerError):
    """A produced record was not delivered; nothing after it was committed."""


class WriteRightError(MissingRightError, DeliveryError):
    """A produced record was refused for want of the right to write to its topic."""


class UndeliveredError(DeliveryError):
    """A produced record was not delivered in time."""

    passing = True  # the broker may be back at any moment


class StillQueuedError(UndeliveredError):
    """Produced records are not delivered yet; they are on their way, none is lost so far."""


class RecordRefusedError(DeliveryError):
    """The producer refuses one record as it is (too large, no such topic or partition, its time).

    ``index`` is its place in the columns that were sent; the records before it were taken.
    """

    def __init__(
        self, reason: str, index: int, *, too_large: bool = False, wrong_time: bool = False
    ) -> None:
        super().__init__(reason)
        self.index = index
        self.too_large = too_large
        self.wrong_time = wrong_time


class EntryTooLargeError(DeliveryError):
    """A store holds more under one key than its changelog takes; nothing of it was committed."""

    def __init__(self, reason: str, task: TaskId) -> None:
        super().__init__(reason)
        self.task = task


class SerdeError(StreamletError):
    """A value that cannot be encoded, or bytes that cannot be decoded."""


class RegistryError(StreamletError):
    """A schema registry refuses a request or a schema; no record is at fault."""


class UnreachableRegistryError(RegistryError):
    """A schema registry does not answer, or answers with no sense."""

    passing = True  # it may be back at any moment


class UnwritableEntryError(SerdeError):
    """A store holds what has no bytes; nothing of it was committed.

    ``task`` is the one that the store belongs to, if known.
    """

    task: TaskId | None = None


class ProcessingError(StreamletError):
    """A record that a user function, a serde or the producer failed on.

    The message begins with the user's line that ``raised``, if it was one, and names topic,
    partition, offset and operator; the cause is chained.
    """

    def __init__(
        self,
        reason: str,
        topic: str,
        partition: int,
        offset: int,
        operator: str,
        raised: str | None = None,
    ) -> None:
        where = f"{reason} at {topic}-{partition} offset {offset}, operator {operator}"
        super().__init__(where if raised is None else f"{raised}; {where}")
        self.reason = reason
        self.topic, self.partition, self.offset = topic, partition, offset
        self.operator = operator


class BufferFullError(ProcessingError):
    """The buffer of a ``suppress`` is full, and it was made to shut down then.

    No error policy leaves the record out: without it the results would be wrong.
    """


class HandlerError(ProcessingError):
    """An error handler of the user's failed on the failure of a record; the message has both."""


class ListenerError(StreamletError):
    """A state or restore listener of the user's raised; that ends the worker."""


class StateError(StreamletError):
    """A state folder or store that cannot be used; ``task`` is the one it belongs to, if known."""

    task: TaskId | None = None


class StateLockedError(StateError):
    """A task folder is held by a live process.

    ``holder`` says which process, as of now; looking for it takes some milliseconds.
    """

    holder: Callable[[], str] | None = None

    def described(self) -> str:
        """The message, with the process that holds it now and its command."""
        return str(self) if self.holder is None else self.holder()


class StateFolderError(StateError):
    """The state folder of an instance cannot be made or written."""

    exit_code = 2


class StateMismatchError(StateError):
    """Local state of another topology, or of a later streamlet; only a person can decide."""

    exit_code = 2


class PositionsMismatchError(StateError):
    """A task's positions, changelogs and state disagree; ``state.mismatch.policy`` decides."""

    exit_code = 5


class TaskCorruptedError(StateError):
    """Local state of a task is damaged or stems from another changelog; wipe it and restore."""


class SparkFailedError(StreamletError):
    """Spark, or a query, failed; ``by_chance``: it may go on, as when a worker died.

    ``exit_code`` is that of the error that a Spark process raised, where it has one of its own.
    """

    def __init__(self, message: str, *, by_chance: bool, exit_code: int = 1) -> None:
        super().__init__(message)
        self.by_chance = by_chance
        self.exit_code = exit_code


class GroupError(StreamletError):
    """Base of what goes wrong between a member and its group."""


class TaskMigratedError(GroupError):
    """The group gave our tasks to another member; drop them and write nothing."""


class ChangelogLostError(TaskMigratedError):
    """A changelog of ours lost records; all tasks are brought up again from their last commits."""


class PartitionsLostError(GroupError):
    """A consumer does not have these partitions any more, or never had them."""


class FencedError(GroupError):
    """A newer process with the same static id took over; this one must stop."""

    exit_code = 6


class FatalGroupError(GroupError):
    """The group refuses us for good (protocol, size); retrying cannot help."""


class GroupRightError(FatalGroupError):
    """The right to read the group is missing; the message has the command to grant it."""

    final = True

    def __init__(self, reason: str, group: str) -> None:
        super().__init__(f"{reason}; {missing(Right('READ', 'group', group))}")
