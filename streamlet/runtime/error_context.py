"""The description of a failure that a user's handler is given."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from streamlet.types import TaskId

#: The stages of a record at which it may fail.
Stage: TypeAlias = Literal["deserialization", "processing", "production"]


@attrs.frozen
class ErrorContext:
    """The place and time of a failure, as Kafka Streams' ``ErrorHandlerContext``.

    Attributes:
        stage: "deserialization", "processing" or "production".
        application: the application's name.
        task: the task that failed; None for a global table, which belongs to none.
        node: the operator, source or sink, as ``streamlet describe`` names it.
        topic: the topic of the input record.
        partition: its partition there.
        offset: its offset there.
        timestamp: the time of the record at this stage, ms since the epoch.
        headers: the headers of the record at this stage; empty where none are read.
        attempt: 1 for the first failure of the record at this node, 2 after one retry.
    """

    stage: Stage
    application: str
    task: TaskId | None
    node: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]
    attempt: int


@attrs.frozen
class FailedRecord:
    """The record that failed, as it was at that stage.

    Attributes:
        key: bytes at deserialization, else as the node got it; bytes too where the producer
            refuses the record.
        value: likewise.
        topic: the topic that the record was to be written to; None but at production.
    """

    key: Any
    value: Any
    topic: str | None = None


@attrs.frozen
class RecordFailure:
    """A failure, before it is known what is to be done about it.

    ``record`` is None where an operator acts without one (a punctuator, a timer). ``final``: it
    cannot be tried again.
    """

    context: ErrorContext
    record: FailedRecord | None
    reason: str
    cause: BaseException | None
    final: bool = False
