"""The columns of a DataFrame that are key, value and time of a topic's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from streamlet.errors import ConfigError
from streamlet.kafka.placements import PartitionerName
from streamlet.serdes import Serde
from streamlet.serdes.pydantic_models import is_pydantic
from streamlet.spark.sql.typed_columns import source_serdes
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


#: The time zone of Arrow's type of a TIMESTAMP, which is a moment in any; only kinds are compared.
_TIMES_ARE = "UTC"


@attrs.frozen
class FrameSource:
    """A DataFrame in place of a topic, and the meaning of its columns.

    A plain DataFrame stands for ``FrameSource(frame)``.

    Args:
        frame: bounded or streaming.
        key: the column with the record keys, or several for the fields of one key. None: the column
            ``key``. Without that, records have no keys, which is refused where the application
            looks them up by their keys; ``()`` says that it is meant.
        value: the column with the values (null: a tombstone), or several that are the fields of
            one value. None: the column ``value`` if there is one; else the fields that the
            serde's type declares, or, of a ``dict``, all columns but key and time.
        time: the column with the record's times, TIMESTAMP, DATE or ms since the epoch. None: the
            column ``timestamp`` if there is one; else rows of a table have the time 0 and
            those of a stream the time at which their batch begins.
        partitioner: how the topic's producer puts keys into partitions, by librdkafka's name as in
            ``App.stream``. None: as the application says where it reads the topic.
    """

    frame: DataFrame
    key: str | Sequence[str] | None = None
    value: str | Sequence[str] | None = None
    time: str | None = None
    partitioner: PartitionerName | None = None


@attrs.frozen
class Layout:
    """The columns of a topic's records: a name, names of fields of a struct, or None: no column."""

    topic: str
    key: str | tuple[str, ...] | None
    value: str | tuple[str, ...] | None
    time: str | None
    #: Time of all rows where no column has it, ms since the epoch; None: that of their batch.
    fixed_time: int | None = None

    @property
    def shown(self) -> tuple[str, str]:
        """Key and value for errors."""
        names = (self.key, self.value)
        key, value = (", ".join(one) if isinstance(one, tuple) else str(one) for one in names)
        return key, value

    def select(self, frame: DataFrame) -> DataFrame:
        """Rows with ``key``, ``value`` and ``timestamp``, in ms since the epoch."""
        from pyspark.sql import functions as f

        if self.time is not None:
            of = frame.schema[self.time].dataType.typeName()
            column = _column(self.time)
            is_long = of in ("long", "integer")
            time = column.cast("long") if is_long else f.unix_millis(column.cast("timestamp"))
        elif self.fixed_time is not None:
            time = f.lit(self.fixed_time).cast("long")
        else:
            time = f.unix_millis(f.current_timestamp())
        key, value = _one(self.key), _one(self.value)
        return frame.select(key.alias("key"), value.alias("value"), time.alias("timestamp"))


def layout_of(topology: Topology, topic: str, source: FrameSource) -> Layout:
    """The columns of a topic's records, after a look at their types.

    Raises:
        ConfigError: a column is missing, or of a type that the topic's serdes cannot take.
    """
    frame, names = source.frame, source.frame.columns
    key_serde, value_serde = source_serdes(topology, topic)
    key = _named(topic, source.key, names, "key") or None
    if key is None:
        _check_keyless(topology, topic, names, meant=source.key is not None)
    time = _named(topic, source.time, names, "timestamp")
    assert not isinstance(time, tuple)
    value = _named(topic, source.value, names, "value")
    if value is None:
        value = _fields(topic, value_serde, names, key, time)
    if time is not None:
        of = frame.schema[time].dataType.typeName()
        if of not in ("timestamp", "timestamp_ntz", "date", "long", "integer"):
            raise ConfigError(
                [f"{topic}: column {time} is {of}: times are TIMESTAMP, DATE or ms as BIGINT"]
            )
    for name, which, serde in (("key", key, key_serde), ("value", value, value_serde)):
        if which is not None:
            _check_type(topic, name, which, serde, frame)
    tables = topology.table_topics
    return Layout(topic, key, value, time, 0 if time is None and topic in tables else None)


def _named(
    topic: str, given: str | Sequence[str] | None, names: Sequence[str], usual: str
) -> str | tuple[str, ...] | None:
    if given is None:
        return usual if usual in names else None
    wanted = (given,) if isinstance(given, str) else tuple(given)
    for name in wanted:
        if name not in names:
            raise ConfigError([f"{topic}: there is no column {name} (there are {_list(names)})"])
    return given if isinstance(given, str) else wanted


def _check_keyless(topology: Topology, topic: str, names: Sequence[str], *, meant: bool) -> None:
    """Refuse records without keys where they would be left out for it.

    Raises:
        ConfigError: operators look them up by their keys.
    """
    tables = topology.table_topics
    keyed = [] if meant else _keyed_operators(topology, topic)
    if topic in tables:
        remedy = "name it with key="
        keyed = ["the rows of a table"]
    elif keyed:
        remedy = "name it with key=, or give key=() if records have no keys"
    else:
        return
    raise ConfigError(
        [
            f"{topic}: there is no column key (there are {_list(names)}), and "
            f"{', '.join(keyed)} go by the keys of records: {remedy}"
        ]
    )


def _keyed_operators(topology: Topology, topic: str) -> list[str]:
    """The operators with state that a topic's records reach without a new key."""
    found: list[str] = []
    for part in topology.subtopologies:
        stateful = {node.name for node in part.processors if node.stores}
        waiting = [source.name for source in part.sources if topic in source.topics]
        reached: set[str] = set()
        while waiting:
            below = set(part.below(waiting.pop())) - reached
            reached |= below
            waiting += below
        found += sorted(stateful & reached)
    return found


def _fields(
    topic: str,
    serde: Serde[Any],
    names: Sequence[str],
    key: str | tuple[str, ...] | None,
    time: str | None,
) -> tuple[str, ...] | None:
    """The columns that are the fields of one value; None if records have no values at all."""
    from streamlet.spark.sql.column_types import is_document, required_fields

    fields = _declared_fields(serde)
    if fields:
        missing = sorted(required_fields(serde) - set(names))
        if missing:
            raise ConfigError(
                [
                    f"{topic}: there is no column {missing[0]}, a field of {serde.name} "
                    f"(there are {_list(names)})"
                ]
            )
        there = tuple(name for name in fields if name in names)
        if there:
            return there
    if is_document(serde):
        taken = {time, *((key,) if isinstance(key, str) else key or ())}
        return tuple(name for name in names if name not in taken)
    if serde.format == "None":
        return None
    raise ConfigError(
        [f"{topic}: there is no column value (there are {_list(names)}); name it with value="]
    )


def _declared_fields(serde: Serde[Any]) -> tuple[str, ...]:
    import pyarrow as pa

    from streamlet.spark.sql.column_types import column_type

    of = column_type(serde)
    if of is None or not pa.types.is_struct(of):
        return ()
    return tuple(field.name for field in of)


def _check_type(
    topic: str, name: str, which: str | tuple[str, ...], serde: Serde[Any], frame: DataFrame
) -> None:
    import pyarrow as pa

    from streamlet.spark.sql.column_types import column_type, is_document, misfit, required_fields

    shown = f"{topic}: column {which}" if isinstance(which, str) else f"{topic}: column "
    found = _arrow_type(topic, frame, which)
    wanted = column_type(serde)
    if wanted is None and is_document(serde):
        if not (pa.types.is_struct(found) or pa.types.is_map(found)):
            raise ConfigError([f"{shown} is {found}, and the {name} is a {serde.name}: a struct"])
        return
    if wanted is None and serde.declared is not None and not is_pydantic(serde.declared):
        return  # no column can hold every value, but those of this one may fit: rows will show it
    if wanted is None:
        if not pa.types.is_binary(found):
            raise ConfigError(
                [
                    f"{shown} is {found}, and the type of {serde.name} is not known: give its "
                    "bytes, as BINARY"
                ]
            )
        return
    wrong = misfit(found, wanted, required_fields(serde) if pa.types.is_struct(wanted) else ())
    if wrong is not None:
        text = f"{shown}{wrong}" if isinstance(which, str) else f"{shown}{wrong.lstrip('.')}"
        raise ConfigError([f"{text}, as {serde.name} declares it: cast or rename it"])


def _arrow_type(topic: str, frame: DataFrame, which: str | tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if isinstance(which, str):
        return _arrow_column(topic, frame, which)
    return pa.struct([(name, _arrow_column(topic, frame, name)) for name in which])


def _arrow_column(topic: str, frame: DataFrame, name: str) -> pa.DataType:
    """The type of a column as Python gets it.

    Raises:
        ConfigError: Python cannot get such columns.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    of = frame.schema[name].dataType
    try:
        return to_arrow_type(of, timezone=_TIMES_ARE)
    except PySparkException as error:
        raise ConfigError(
            [f"{topic}: column {name} is {of.simpleString()}, which Python cannot read: cast it"]
        ) from error


def _one(which: str | tuple[str, ...] | None) -> Any:
    from pyspark.sql import functions as f

    if which is None:
        return f.lit(None).cast("binary")
    if isinstance(which, str):
        return _column(which)
    return f.struct(*(_column(name).alias(name) for name in which))


def _column(name: str) -> Any:
    """A column by its exact name, which may have dots in it."""
    from pyspark.sql import functions as f

    return f.col(f"`{name.replace('`', '``')}`")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
