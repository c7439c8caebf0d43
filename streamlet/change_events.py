"""Topics of change events, as Debezium writes them: a stream of changes, or the table behind them.

An event is an envelope with the row before and after, in JSON with or without its schema beside it,
or in Avro with a schema registry. A deletion is an event without a row after it, and then a
tombstone, by which compaction drops the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import attrs
import msgspec

from streamlet.absent import explained_in_errors, explains_misuse
from streamlet.arguments import calls_told_by_form, told_by_form
from streamlet.bounded import is_deeper
from streamlet.errors import SerdeError
from streamlet.registry import Schemas
from streamlet.registry import avro as avro_records
from streamlet.serdes.json_types import describe, is_immutable, is_simple, type_name
from streamlet.serdes.pydantic_models import is_pydantic, pydantic_converter
from streamlet.serdes.resolve import serde as serde_of
from streamlet.serdes.serde import Serde, build

if TYPE_CHECKING:
    from streamlet.dsl.sources import Sources
    from streamlet.dsl.stream import KStream
    from streamlet.dsl.table import KTable

K = TypeVar("K")
V = TypeVar("V")

#: What happened to a row; a "read" is one of a snapshot.
Operation = Literal["create", "read", "update", "delete", "truncate", "message"]

_OPERATIONS: dict[object, Operation] = {
    "c": "create",
    "r": "read",
    "u": "update",
    "d": "delete",
    "t": "truncate",
    "m": "message",
}
_LETTERS = {name: letter for letter, name in _OPERATIONS.items()}
_DEEPEST = 100


@explained_in_errors
@attrs.frozen
class ChangeEvent(Generic[V]):
    """One change of a row in a database.

    Attributes:
        operation: what happened; "read" is a row of a snapshot, "truncate" the end of all rows.
        before: the row as it was; None: it is new, or the database does not tell all
            of it (PostgreSQL: ``REPLICA IDENTITY FULL`` has it told).
        after: the row as it is; None: it is gone.
        source: where the event is in the database's log: its connector, table, position and so on.
        at_ms: when the connector saw it, ms since the epoch; None: it does not say.
        message: of a "message", which is about no row: its ``prefix`` and ``content``.
    """

    operation: Operation
    before: V | None
    after: V | None
    source: dict[str, Any]
    at_ms: int | None = None
    message: dict[str, Any] | None = None


@explains_misuse
@calls_told_by_form
@attrs.frozen(eq=False)
class Debezium(Generic[K, V]):
    """Reads topics of change events; made by ``debezium``.

    Attributes:
        key: the serde of the topic's keys.
        value: the serde of the rows, as they are kept in stores.
        events: the serde of the topic's values.
    """

    key: Serde[K]
    value: Serde[V]
    events: Serde[ChangeEvent[V]]

    def stream(self, app: Sources, topic: str, **how: Any) -> KStream[K, ChangeEvent[V]]:
        """The changes in a topic, without tombstones, which say nothing beside their deletions.

        Args:
            app: the application.
            topic: such as ``shop.public.customers``.
            how: as of ``App.stream``, such as ``reset="earliest"``.
        """
        changes = app.stream(topic, key=self.key, value=self.events, **how)
        return changes.filter(lambda key, change: change is not None)

    def table(self, app: Sources, topic: str, *, store: Any = None, **how: Any) -> KTable[K, V]:
        """The rows of a topic's table as they are now; a deletion deletes its row.

        A truncation is an error of its record, since it has no key.

        Args:
            app: the application.
            topic: such as ``shop.public.customers``.
            store: as of ``KStream.to_table``.
            how: as of ``App.stream``, such as ``reset="earliest"``.
        """
        changes = app.stream(topic, key=self.key, value=self.events, **how)
        rows = changes.filter(lambda key, change: change is None or change.operation != "message")
        return rows.map_values(_row).to_table(key=self.key, value=self.value, store=store)


@told_by_form
def debezium(key: type[K], value: type[V], *, registry: Schemas | None = None) -> Debezium[K, V]:
    """Topics of change events by Debezium; the record itself says whether it is JSON or Avro.

    Args:
        key: the type of keys: a class with their columns, or of keys with one column that of the
            column, such as ``int``, ``str`` or ``UUID``.
        value: the type of rows: a class with columns by their names, or ``dict``. Columns that it
            does not have are left out. Times are as the connector writes them: numbers, unless it
            is told otherwise.
        registry: of topics in Avro; None: that of the environment, ``SCHEMA_REGISTRY_URL``.

    Raises:
        SerdeError: there is no serde for a type.
    """
    rows = serde_of(value)
    return Debezium(_keys(key, registry), rows, _events(value, rows, registry))


def _row(change: ChangeEvent[Any] | None) -> Any:
    """The row after a change; None where it is gone."""
    if change is None or change.operation == "delete":
        return None
    if change.operation == "truncate":
        raise ValueError("the table was truncated: reset the application, or skip this record")
    if change.after is None:
        raise ValueError(
            f"an event of operation {change.operation!r} has no row after it: have the connector "
            "write whole rows (MongoDB: capture.mode=change_streams_update_full)"
        )
    return change.after


class _Documents:
    """Reads a document in JSON, with a schema beside it or not, or in Avro."""

    def __init__(self, name: str, registry: Schemas | None) -> None:
        self._name = name
        self._avro: Serde[Any] = avro_records(registry=registry)

    def of(self, raw: bytes) -> Any:
        if raw[:1] in (b"\0", b"\1"):
            return self._avro.decode(raw)
        found = msgspec.json.decode(raw)
        if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
            found = found["payload"]
        if is_deeper(found, _DEEPEST):
            raise SerdeError(f"{self._name}: it nests deeper than {_DEEPEST} levels")
        return found


def _keys(of: Any, registry: Schemas | None) -> Serde[Any]:
    """The serde of keys; written, they are JSON without a schema."""
    bare, name = serde_of(of), f"debezium key({type_name(of)})"
    documents, one_column = _Documents(name, registry), is_simple(describe(of))
    written = msgspec.json.Encoder(order="sorted") if one_column else None

    def decode(raw: bytes) -> Any:
        found = documents.of(raw)
        if one_column and isinstance(found, dict):
            if len(found) != 1:
                columns = ", ".join(map(str, found)) or "none"
                raise SerdeError(f"{name}: expected a key of one column, got {columns}")
            (found,) = found.values()
        return msgspec.convert(found, of, str_keys=True)

    def encode(value: Any) -> bytes:
        return bare.encode(value) if written is None else written.encode(value)

    return _for_topics(
        build(
            name,
            encode,
            decode,
            accepts=bare.accepts,
            immutable=is_immutable(describe(of)),
            declared=of,
            many_forms=True,
        )
    )


def _events(of: Any, rows: Serde[Any], registry: Schemas | None) -> Serde[ChangeEvent[Any]]:
    """The serde of events; written, they are JSON without a schema."""
    name = f"debezium({type_name(of)})"
    documents = _Documents(name, registry)
    by_pydantic = pydantic_converter(of) if is_pydantic(of) else None

    def row(found: Any) -> Any:
        if found is None:
            return None
        if by_pydantic is not None:
            return by_pydantic(found)
        return msgspec.convert(found, of, str_keys=True)

    def row_before(found: Any) -> Any:
        try:
            return row(found)
        except ValueError:  # of msgspec and of pydantic
            return None  # of most tables PostgreSQL logs the key's columns alone

    def decode(raw: bytes) -> ChangeEvent[Any]:
        found = documents.of(raw)
        if not isinstance(found, dict) or "op" not in found:
            raise SerdeError(
                f"{name}: no change event: it has no field op; were events unwrapped by a "
                "transformation? Read those with a type, as other records"
            )
        operation = _OPERATIONS.get(found["op"])
        source, at_ms, message = (found.get(name) for name in ("source", "ts_ms", "message"))
        if operation is None:
            raise SerdeError(f"{name}: unknown operation {found['op']!r:.20}")
        return ChangeEvent(
            operation,
            row_before(found.get("before")),
            row(found.get("after")),
            source if isinstance(source, dict) else {},
            at_ms if type(at_ms) is int else None,
            message if isinstance(message, dict) else None,
        )

    def encode(change: ChangeEvent[Any]) -> bytes:
        before, after = (
            None if one is None else msgspec.Raw(rows.encode(one))
            for one in (change.before, change.after)
        )
        event = {
            "before": before,
            "after": after,
            "source": change.source,
            "op": _LETTERS[change.operation],
            "ts_ms": change.at_ms,
        }
        if change.message is not None:
            event["message"] = change.message
        return msgspec.json.encode(event)

    return _for_topics(build(name, encode, decode, accepts=frozenset({ChangeEvent})))


def _for_topics(serde: Serde[Any]) -> Serde[Any]:
    """The serde, which gets schema ids out of headers too."""
    return attrs.evolve(serde, for_topic=lambda topic, role: serde)
