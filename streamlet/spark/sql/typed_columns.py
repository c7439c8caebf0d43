"""Typed columns of an application's topics: to bytes by its serdes where they are read, and back.

On workers; the serdes are those of the application's own nodes, found by topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from streamlet.errors import SerdeError, TopologyError
from streamlet.serdes import ColumnError, Serde, Windowed
from streamlet.serdes.pydantic_models import is_pydantic
from streamlet.spark.cluster.session import require_pyspark
from streamlet.spark.error_notes import reported_rows
from streamlet.spark.plan.reference import Application, reference_of, resolve
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: In place of an output topic: the records of all.
ALL_TOPICS = "*"


def typed(frame: DataFrame, app: Application | str, topic: str) -> DataFrame:
    """The records of one output topic, with typed columns.

    ``key`` and ``value`` are of the types that the application's serdes declare: a struct with the
    fields of a dataclass, an attrs class, a ``msgspec.Struct`` or an Avro record, a plain column of
    ``int``, ``str`` and their like, a struct of ``key``, ``start`` and ``end`` (ms since the epoch)
    of windowed keys. Where the type is not known, or no column can hold it, they are the bytes:
    ``dict``, ``json()``, functions of one's own. ``timestamp`` is Spark's.

    Args:
        frame: rows of ``to_dataframe``, or a batch of them within ``foreachBatch``.
        app: the application that wrote them.
        topic: the one whose records are wanted; others are left out.

    Raises:
        TopologyError: the application does not write that topic.
    """
    require_pyspark()
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import BinaryType, LongType, StructType

    reference = reference_of(app)
    topology = resolve(reference).topology()
    schema = StructType()
    for name, serde in zip(("key", "value"), sink_serdes(topology, topic), strict=True):
        of = _column_type(serde)
        schema = schema.add(name, BinaryType() if of is None else from_arrow_type(of))
    schema = schema.add("timestamp", LongType())
    rows = frame.where(f.col("topic") == topic).select("key", "value", "timestamp")
    decoded = rows.mapInArrow(DecodeRows(reference, topic), schema)
    return decoded.withColumn("timestamp", f.timestamp_millis("timestamp"))


def output_topics(topology: Topology) -> tuple[str, ...]:
    """The topics that an application writes for others, sorted."""
    inside = set(topology.repartition_topics)
    found = {sink.topic for part in topology.subtopologies for sink in part.sinks}
    return tuple(sorted(found - inside - {""}))


def only_topic(app: Application | str) -> str:
    """The output topic of an application that has one.

    Raises:
        TopologyError: it has none, or several.
    """
    topology = resolve(reference_of(app)).topology()
    topics = output_topics(topology)
    if len(topics) == 1:
        return topics[0]
    raise TopologyError(
        f"{topology.application} writes {' and '.join(topics) or 'no topic'}: name the one that is "
        f"wanted with topic=, or take the bytes of all with topic={ALL_TOPICS!r}"
    )


def sink_serdes(topology: Topology, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """The serdes of an output topic's keys and values.

    Raises:
        TopologyError: nothing writes it.
    """
    for part in topology.subtopologies:
        for sink in part.sinks:
            if sink.topic == topic and topic in output_topics(topology):
                return sink.key, sink.value
    written = ", ".join(output_topics(topology)) or "none"
    raise TopologyError(f"{topology.application} does not write {topic!r}; it writes {written}")


def source_serdes(topology: Topology, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """The serdes of an input topic's keys and values.

    Raises:
        TopologyError: nothing reads it.
    """
    for part in topology.subtopologies:
        for source in part.sources:
            if topic in source.topics and topic in topology.source_topics:
                return source.key, source.value
    read = ", ".join(topology.source_topics)
    raise TopologyError(f"{topology.application} does not read {topic!r}; it reads {read}")


@attrs.frozen
class DecodeRows:
    """Bytes of an output topic as typed columns, in ``mapInArrow``.

    Raises:
        SerdeError: when called, bytes that the topic's serdes cannot read.
    """

    reference: str
    topic: str

    @reported_rows
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode the rows of one Spark partition."""
        import pyarrow as pa

        serdes = sink_serdes(resolve(self.reference).topology(), self.topic)
        for rows in batches:
            columns = [
                _decoded(rows[name], serde, f"{self.topic}: {name}")
                for name, serde in zip(("key", "value"), serdes, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(
                [*columns, rows["timestamp"]], names=["key", "value", "timestamp"]
            )


#: As natively, where a field of a JSON document is null.
_NO_DEFAULT = (
    "; a null does not stand for the field's default: annotate it with | None, fill the column, or "
    "leave it out"
)


def encoder(serde: Serde[Any], where: str) -> Callable[[pa.Array], list[bytes | None]]:
    """A function from a column of Spark's to the bytes of its values.

    Args:
        serde: of the values; where their type is not known the column has their bytes already.
        where: topic and column, for errors.
    """
    from streamlet.spark.sql.column_types import is_document
    from streamlet.spark.sql.column_values import from_column

    if is_pydantic(serde.declared) or (serde.declared is None and not is_document(serde)):
        return lambda column: column.to_pylist()
    # A dict of an Avro record is its value, and so is any of a document.
    as_it_is = serde.declared is None or isinstance(serde.declared, dict | list | str)
    change = None if serde.declared is None else from_column(serde.declared)

    def encode(column: pa.Array) -> list[bytes | None]:
        values = _python_values(column)
        try:
            if change is not None:
                values = [None if value is None else change(value) for value in values]
            if not as_it_is:
                values = _converted(values, serde.declared)
            return serde.encode_column(values)
        except msgspec.ValidationError as error:
            hint = _NO_DEFAULT if _fails_by_nulls(values, serde.declared) else ""
            raise SerdeError(f"{where}: {error}{hint}") from error
        except ColumnError as error:
            raise SerdeError(f"{where}: {error.cause}") from error

    return encode


def _python_values(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    of = _in_utc(column.type)
    column = column if of == column.type else column.cast(of)
    # Maps come as lists of pairs otherwise; only new versions of Arrow know how to make dicts.
    how = {"maps_as_pydicts": "strict"} if _has_map(column.type) else {}
    if pa.types.is_nested(column.type) or pa.types.is_temporal(column.type):
        return list(column.to_pylist(**how))
    return list(column.to_pylist())


def _has_map(of: pa.DataType) -> bool:
    """True if a type is a map, or has one within."""
    import pyarrow as pa

    return bool(pa.types.is_map(of)) or any(
        _has_map(of.field(number).type) for number in range(of.num_fields)
    )


def _in_utc(of: pa.DataType) -> pa.DataType:
    """The type with moments in UTC, whatever the time zone of the session.

    All in it may be null: Spark says of fields that they are never, and a struct of them may be.
    """
    import pyarrow as pa

    if pa.types.is_timestamp(of) and of.tz is not None:
        return pa.timestamp(of.unit, tz="UTC")
    if pa.types.is_struct(of):
        return pa.struct([(field.name, _in_utc(field.type)) for field in of])
    if pa.types.is_list(of):
        return pa.list_(_in_utc(of.value_type))
    if pa.types.is_map(of):
        return pa.map_(_in_utc(of.key_type), _in_utc(of.item_type))
    return of


def _converted(values: Sequence[Any], declared: Any) -> list[Any]:
    """Values of the declared type; None, a tombstone or a null key, stays None."""
    present = [value for value in values if value is not None]
    found = iter(msgspec.convert(present, type=list[declared]))
    return [None if value is None else next(found) for value in values]


def _decoded(column: pa.Array, serde: Serde[Any], where: str) -> pa.Array:
    import pyarrow as pa

    from streamlet.spark.sql.column_values import builtins_of, into_column

    of = _column_type(serde)
    if of is None:
        return column
    is_windowed = getattr(serde.declared, "__origin__", None) is Windowed
    change = into_column(serde.declared.__args__[0] if is_windowed else serde.declared)

    def plain(value: Any) -> Any:
        if isinstance(value, Windowed):
            return {"key": plain(value.key), "start": value.start, "end": value.end}
        found = builtins_of(value)
        return found if change is None or found is None else change(found)

    try:
        values = serde.decode_column(column.to_pylist())
        return pa.array([plain(value) for value in values], of)
    except ColumnError as error:
        raise SerdeError(f"{where}: {error.cause}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise SerdeError(f"{where}: a value is no {of}: {error}") from error


def _column_type(serde: Serde[Any]) -> Any:
    from streamlet.spark.sql.column_types import column_type

    return column_type(serde)


def _fails_by_nulls(values: Sequence[Any], declared: Any) -> bool:
    """True if the first value that is not of the type would be without its nulls."""
    present = (value for value in values if value is not None)
    wrong = next((value for value in present if not _is_a(value, declared)), None)
    return wrong is not None and _is_a(_without_nulls(wrong), declared)


def _is_a(value: Any, declared: Any) -> bool:
    try:
        msgspec.convert(value, type=declared)
    except msgspec.ValidationError:
        return False
    return True


def _without_nulls(value: Any) -> Any:
    """A value of Spark's whose structs lack the fields that are null."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
