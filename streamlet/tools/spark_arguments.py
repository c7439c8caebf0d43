"""The options of ``streamlet run --engine spark``, as one group."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import attrs
import typer


class Written(StrEnum):
    """The outputs that are written."""

    UPDATES = "updates"
    LATEST = "latest"


class Aggregations(StrEnum):
    """The engine of the aggregations."""

    SQL = "sql"
    TASKS = "tasks"


_SPARK = "With --engine spark"


def _option(metavar: str | None, text: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=_SPARK)


@attrs.frozen
class SparkArguments:
    """The options of a run on Spark as they were given; None for those that were not."""

    checkpoint: Annotated[
        str | None,
        _option(
            "DIR", "Folder or URL where Spark keeps positions and state. [default: below state.dir]"
        ),
    ] = None
    trigger: Annotated[
        str | None,
        _option(
            "TIME",
            "Time from micro-batch to micro-batch, as 1s or 500ms; or available-now: process what "
            "is there and end. [default: 1s]",
        ),
    ] = None
    master: Annotated[
        str | None,
        _option(
            "URL",
            "Where Spark runs, as spark://host:7077. [default: local[*]]",
        ),
    ] = None
    output: Annotated[
        Written | None,
        _option(
            None,
            "Every update, or the latest per key and micro-batch. [default: updates]",
            "--output",
        ),
    ] = None
    aggregations: Annotated[
        Aggregations | None,
        _option(
            None,
            "What does the aggregations. [default: with --output latest Spark SQL where the "
            "result is the same, else the tasks]",
            "--aggregations",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The options that were given, by field."""
        return {name: value for name, value in attrs.asdict(self).items() if value}

    def by_option(self) -> dict[str, Any]:
        """The options that were given, as they are written."""
        return {f"--{name.replace('_', '-')}": value for name, value in self.given().items()}
