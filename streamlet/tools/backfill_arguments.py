"""The options of ``streamlet backfill``, as one group."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from streamlet.errors import ConfigError
from streamlet.kafka.placements import partitioner_name
from streamlet.tools.settings import key_values

if TYPE_CHECKING:
    from streamlet.reset.start import StartPosition
    from streamlet.spark.backfill_files import DataFiles


class BackfillOutput(StrEnum):
    """The records that are written to output topics."""

    UPDATES = "updates"
    LATEST = "latest"
    NONE = "none"


_SPARK = "Spark"


def _text(metavar: str, text: str, *, panel: str | None = None) -> typer.models.OptionInfo:
    found: typer.models.OptionInfo = typer.Option(metavar=metavar, help=text, rich_help_panel=panel)
    return found


@attrs.frozen
class BackfillArguments:
    """The options as they were given."""

    path: Annotated[
        list[str] | None,
        _text("TOPIC=PATH", "Files in place of a topic; repeatable. Others are read from Kafka."),
    ] = None
    key: Annotated[
        str | None,
        _text("COLUMN", "Column of the keys; '' where records have none. [default: key]"),
    ] = None
    value: Annotated[
        str | None,
        _text("COLUMN", "Column of the values. [default: value, else the fields of its type]"),
    ] = None
    time: Annotated[str | None, _text("COLUMN", "Column of the times. [default: timestamp]")] = None
    schema: Annotated[
        str | None, _text("DDL", "Columns of CSV files, as 'id string, amount double'.")
    ] = None
    partitioner: Annotated[
        str | None,
        _text(
            "NAME",
            "How the topics' producers put keys into partitions, by librdkafka's name, as "
            "consistent_random. [default: as partitioner= of the program says]",
        ),
    ] = None
    live_from: Annotated[
        str | None,
        _text(
            "POSITION",
            "Where instances go on in topics that come from files: earliest, latest or a date and "
            "time. [default: behind the time of the last record in the files]",
        ),
    ] = None
    output: Annotated[
        BackfillOutput,
        typer.Option(
            "--output",
            help="Written to output topics: every update, the latest per key and micro-batch, or "
            "nothing.",
        ),
    ] = BackfillOutput.LATEST
    max_records_per_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Read from Kafka's streams in a micro-batch.",
            rich_help_panel=_SPARK,
        ),
    ] = None
    master: Annotated[
        str | None, _text("URL", "Where Spark runs. [default: local[*]]", panel=_SPARK)
    ] = None
    checkpoint: Annotated[
        str | None,
        _text(
            "DIR",
            "Folder or URL for Spark's state meanwhile. [default: below state.dir]",
            panel=_SPARK,
        ),
    ] = None
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Print errors of Spark's with the traces of Java and Python.",
            rich_help_panel=_SPARK,
        ),
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="Discard state and positions that are there.")
    ] = False

    def start(self) -> StartPosition | None:
        """The place where instances go on in topics that come from files; None: behind the files.

        Raises:
            ConfigError: it is no place and no time.
        """
        from streamlet.reset.start import StartPosition

        given = self.live_from
        return None if given is None else StartPosition.of(given, "--live-from")

    def files(self, form: str) -> dict[str, DataFiles]:
        """The files by topic.

        Raises:
            ConfigError: files are needed and not given, or the other way; or there is no such
                partitioner.
        """
        from streamlet.spark.backfill_files import DataFiles

        paths = key_values(self.path or [], "--path")
        names = ("path", "key", "value", "time", "schema", "partitioner", "live_from")
        given = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]
        if form == "topic" and given:
            what = ", ".join(given)
            raise ConfigError([f"{what}: only with files, --from parquet or --from csv"])
        if form != "topic" and not paths:
            raise ConfigError([f"--path: needed with --from {form}, as topic=folder"])
        columns = (self.key, self.value, self.time, self.schema, self._partitioner())
        kind = "csv" if form == "csv" else "parquet"
        return {topic: DataFiles(kind, folder, *columns) for topic, folder in paths.items()}  # type: ignore[arg-type]

    def _partitioner(self) -> str | None:
        try:
            return self.partitioner and partitioner_name(self.partitioner)
        except ValueError as error:
            raise ConfigError([f"--partitioner: {error}"]) from error
