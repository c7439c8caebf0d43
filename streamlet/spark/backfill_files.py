"""Files in place of topics for a backfill: read as streams that end with the files there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from streamlet.errors import ConfigError, StreamletError
from streamlet.kafka.placements import PartitionerName
from streamlet.spark.sql.frame_columns import FrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FileFormat: TypeAlias = Literal["parquet", "csv"]

#: CSV as in RFC 4180: quotes within quotes are doubled, and a field in quotes may have new lines.
#: Columns that are not those of the schema, and values that are not of their types, are errors.
CSV = {
    "header": "true",
    "quote": '"',
    "escape": '"',
    "multiLine": "true",
    "enforceSchema": "false",
    "mode": "FAILFAST",
}


@attrs.frozen
class DataFiles:
    """The files of one topic, and the meaning of their columns.

    Args:
        form: of the files; CSV is that of RFC 4180, with a line of the names of its columns, where
            an empty field is null.
        folder: where they are, or URL.
        key: see ``FrameSource``, as ``value`` and ``time``; empty: records have no keys.
        schema: of CSV, as ``id string, amount double``; None: by a look at the data.
        partitioner: see ``FrameSource``.
    """

    form: FileFormat
    folder: str
    key: str | None = None
    value: str | None = None
    time: str | None = None
    schema: str | None = None
    partitioner: PartitionerName | None = None

    def source(self, spark: SparkSession) -> FrameSource:
        """The files as a stream.

        Raises:
            ConfigError: there are none.
        """
        schema = self._read(spark).schema
        reader = spark.readStream.format(self.form).schema(schema).options(**self._options())
        return FrameSource(
            reader.load(self.folder),
            () if self.key == "" else self.key,
            self.value,
            self.time,
            self.partitioner,
        )

    def last_time(self, spark: SparkSession) -> int:
        """The newest time of all records, ms since the epoch.

        Raises:
            ConfigError: no column has times.
            StreamletError: there are no records.
        """
        from pyspark.sql import functions as f

        frame = self._read(spark)
        time = self.time or "timestamp"
        if time not in frame.columns:
            raise ConfigError(
                [f"--live-from: needed, because {self.folder} has no column {time} with times"]
            )
        column = f.col(time)
        if frame.schema[time].dataType.typeName() not in ("long", "integer"):
            column = f.unix_millis(column.cast("timestamp"))
        row = frame.agg(f.max(column).alias("last")).first()
        if row is None or row["last"] is None:
            raise StreamletError(f"{self.folder}: there are no records with times")
        return int(row["last"])

    def _options(self) -> dict[str, str]:
        return CSV if self.form == "csv" else {}

    def _read(self, spark: SparkSession) -> DataFrame:
        from pyspark.errors import AnalysisException

        reader = spark.read.format(self.form).options(**self._options())
        if self.schema is not None:
            reader = reader.schema(self.schema)
        elif self.form == "csv":
            reader = reader.option("inferSchema", "true")
        try:
            return reader.load(self.folder)
        except AnalysisException as error:
            raise ConfigError([f"--path {self.folder}: {str(error).splitlines()[0]}"]) from error
