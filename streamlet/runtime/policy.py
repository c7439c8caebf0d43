"""What happens to a record that cannot be processed: fail, skip, or dead letter."""

from __future__ import annotations

from typing import Literal

import attrs

from streamlet.errors import ConfigError, ProcessingError
from streamlet.kafka.ports import Headers

Action = Literal["fail", "skip", "dead_letter"]


@attrs.frozen
class ErrorPolicy:
    """One answer for records that a serde or a user function fails on.

    ``fail`` stops the task, nothing behind the last commit is kept. ``skip`` counts the record and
    goes on behind it. ``dead_letter`` writes it as it was read to ``topic``, the reason in headers.
    """

    action: Action = "fail"
    topic: str | None = None

    @classmethod
    def of(cls, value: ErrorPolicy | str | tuple[str, str] | None) -> ErrorPolicy:
        """Read what a user gives: ``"fail"``, ``"skip"`` or ``("dead_letter", topic)``.

        Raises:
            ConfigError: it is none of these.
        """
        match value:
            case None:
                return cls()
            case ErrorPolicy():
                return value
            case "fail" | "skip":
                return cls(value)
            case ("dead_letter", str(topic)) if topic:
                return cls("dead_letter", topic)
        raise ConfigError(
            [f'on_error: expected "fail", "skip" or ("dead_letter", topic), not {value!r}']
        )


def reason_headers(error: ProcessingError, application: str) -> Headers:
    """Headers of a dead letter: where the record came from and why it is here."""
    cause = error.__cause__ or error
    named = {
        "application": application,
        "topic": error.topic,
        "partition": str(error.partition),
        "offset": str(error.offset),
        "operator": error.operator,
        "error": type(cause).__name__,
        "message": str(cause)[:1000],
    }
    return [(f"streamlet.{name}", text.encode()) for name, text in named.items()]
