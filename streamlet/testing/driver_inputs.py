"""Checks of what a test gives a ``TopologyTestDriver`` and reads from it: records and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from streamlet.app import App
from streamlet.arguments import check_is
from streamlet.config.values import duration
from streamlet.dsl.graph.durations import Duration
from streamlet.dsl.graph.record_context import checked_header
from streamlet.dsl.operators.pairs import is_pair
from streamlet.dsl.processors.store_builders import StoreBuilder
from streamlet.errors import SerdeError, WrongTypeError, WrongValueError
from streamlet.kafka.ports import Headers
from streamlet.serdes import ColumnError, Serde
from streamlet.tracing.off import NoTracing
from streamlet.user_code import plain_hint, shown

#: A time: ms since the epoch, or a ``datetime`` with a time zone.
Time: TypeAlias = int | datetime

#: Records piped in without a time, and the wall clock, begin here: not 0, so that a time in ms that
#: was taken for seconds shows.
START_MS = 1_577_836_800_000  # 2020-01-01T00:00:00Z


def checked_app(app: object) -> App:
    """The application to drive.

    Raises:
        WrongTypeError: it is none.
    """
    if not isinstance(app, App):
        raise WrongTypeError(f"TopologyTestDriver() expects an App, got {shown(app)}")
    return app


def checked_partitions(given: object) -> Mapping[str, int]:
    """Return the number of partitions by topic; none where a test does not say it.

    Raises:
        WrongTypeError: they are no numbers by topic.
    """
    found = {} if given is None else given
    if not isinstance(found, Mapping) or set(map(type, found.values())) - {int}:
        hints = map(plain_hint, found.values() if isinstance(found, Mapping) else ())
        raise WrongTypeError(
            f"partitions= expects numbers by topic, such as {{'in': 3}}, got {shown(given)}"
            f"{next(filter(None, hints), '')}"
        )
    return found


def store_name(given: object) -> str:
    """The name of a store, given as such or by the builder that made it.

    Raises:
        WrongTypeError: it is neither.
    """
    check_is("store()", given, (str, StoreBuilder), "the name of a store or its builder")
    return given.name if isinstance(given, StoreBuilder) else str(given)


def checked_pairs(records: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The records to pipe in.

    Raises:
        WrongTypeError: they are no pairs of a key and a value.
    """
    fits = isinstance(records, Iterable) and not isinstance(records, Mapping)
    found = list(records) if fits else []
    if not (fits and all(map(is_pair, found))):
        raise WrongTypeError(
            f"pipe_inputs() expects pairs of a key and a value, got {shown(records)}"
        )
    return found


def encoded(topic: str, what: str, serde: Serde[Any], column: list[Any]) -> list[bytes | None]:
    """The bytes of keys or values of records that a test writes.

    Raises:
        SerdeError: one is of another type; topic and record are in the message.
    """
    try:
        return serde.of_topic(topic, what).encode_column(column)
    except ColumnError as error:
        which = "" if len(column) == 1 else f" of record {error.index}"
        raise SerdeError(f"pipe to {shown(topic)}: the {what}{which}: {error.cause}") from error


def decoded(topic: str, what: str, serde: Serde[Any], raw: bytes | None) -> Any:
    """The key or value of a record that the application wrote.

    Raises:
        SerdeError: it is of another type; topic and part of the record are in the message.
    """
    if raw is None:
        return None
    try:
        return serde.decode(raw)
    except SerdeError as error:
        raise SerdeError(f"read_output({shown(topic)}): the {what}: {error}") from error


def time_ms(call: str, given: object) -> int:
    """A time in ms since the epoch, given as such or as a ``datetime`` with a time zone.

    Raises:
        WrongTypeError: it is neither.
    """
    if isinstance(given, datetime) and given.tzinfo is not None:
        return int(given.timestamp() * 1_000)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise WrongTypeError(
        f"{call} expects an int, ms since the epoch, or a datetime with a time zone, got "
        f"{shown(given)}{plain_hint(given)}"
    )


def length_ms(call: str, given: Duration, back: str = "time never moves back") -> int:
    """A length of time in ms, given as such, as text with a unit or as a ``timedelta``.

    ``back`` says why it cannot be negative.

    Raises:
        ValueError: it is none, or negative.
    """
    if (
        given < timedelta()
        if isinstance(given, timedelta)
        else shown(given).startswith(("-", "'-"))
    ):
        raise WrongValueError(f"{call} {shown(given)}: {back}")
    try:
        return duration().parse(given)
    except ValueError as error:
        raise WrongValueError(f"{call} {shown(given)}: {error}") from error


def checked_headers(given: Iterable[tuple[str, bytes | None]] | None) -> Headers | None:
    """Headers of a record; None where there are none.

    Raises:
        WrongTypeError: they are no pairs of a name and bytes.
    """
    try:
        pairs = [] if given is None else [checked_header(one) for one in given]
    except (TypeError, ValueError):
        raise WrongTypeError(
            "headers= expects pairs of a name and bytes, such as [('id', b'7')], got "
            f"{shown(given)}"
        ) from None
    return pairs or None


def tracing_of(app: App) -> NoTracing:
    """Makes tasks, with spans where the application has a provider of its own."""
    if app.tracer_provider is None:
        return NoTracing()
    from streamlet.tracing.worker import WorkerTracing

    return WorkerTracing(app.tracer_provider, app.name, "driver", app.settings.tracing_rows)
