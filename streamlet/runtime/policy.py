"""The policy for a record that cannot be processed: fail, skip, or dead letter."""

from __future__ import annotations

from typing import Literal

import attrs

from streamlet.errors import ConfigError, ProcessingError
from streamlet.kafka.ports import Headers

Action = Literal["fail", "skip", "dead_letter"]

#: What the names of the headers begin with that give the reason of a dead letter.
_REASON = "streamlet."


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


def reason_headers(
    error: ProcessingError, application: str, headers: Headers | None = None
) -> Headers:
    """Headers of a dead letter: its record's own, then where it came from and why it is here.

    The reason of an earlier letter that was read again is left out.
    """
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
    reason = {f"{_REASON}{name}": text.encode() for name, text in named.items()}
    own = [header for header in headers or () if header[0] not in reason]
    return [*own, *reason.items()]


def has_reason(headers: Headers | None) -> bool:
    """True if these are the headers of a dead letter."""
    return any(name.startswith(_REASON) for name, _ in headers or ())
