"""The options of ``streamlet run --engine spark``, as one group."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import attrs
import typer

from streamlet.config.spark import MAX_RECORDS_PER_BATCH, RESTARTS
from streamlet.errors import ConfigError
from streamlet.tools.settings import key_values


class Written(StrEnum):
    """The outputs that are written."""

    UPDATES = "updates"
    LATEST = "latest"


class Aggregations(StrEnum):
    """The engine of the aggregations."""

    SQL = "sql"
    TASKS = "tasks"


class DeployMode(StrEnum):
    """The place of Spark's driver."""

    CLIENT = "client"
    CLUSTER = "cluster"


_SPARK = "With --engine spark"

#: Settings that an option of their own has.
_OPTION_OF = {
    "spark.master": "--master",
    "spark.app.name": "--name",
    "spark.submit.deployMode": "--deploy-mode",
    "spark.submit.pyFiles": "--py-files",
    "spark.archives": "--archives",
    "spark.files": "--files",
    "spark.jars": "--jars",
    "spark.jars.packages": "--packages",
}


def _option(metavar: str | None, text: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=_SPARK)


def _files(text: str) -> Any:
    return _option("FILES", f"{text}; with commas between, or repeated.")


@attrs.frozen
class SparkArguments:
    """The options of a run on Spark as they were given; None for those that were not.

    Those that ``spark-submit`` has too mean the same here.
    """

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
    max_records_per_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="About so many records of streams in one micro-batch, 0 for all there are; tables "
            f"are read to their ends. [default: {MAX_RECORDS_PER_BATCH}]",
            rich_help_panel=_SPARK,
        ),
    ] = None
    restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="How often in a row a query that failed begins again from its checkpoint, after "
            f"1, 2, 4 ... 60 s; not for an error of a record or of the code. "
            f"[default: {RESTARTS}]",
            rich_help_panel=_SPARK,
        ),
    ] = None
    master: Annotated[
        str | None,
        _option(
            "URL",
            "Where Spark runs, as spark://host:7077, yarn or k8s://https://host:443. "
            "[default: local[*]]",
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
    deploy_mode: Annotated[
        DeployMode | None,
        _option(None, "Whether the driver is this process, or runs in the cluster."),
    ] = None
    py_files: Annotated[
        list[str] | None,
        _files("Modules (.py) and packages (.zip) for driver and executors besides APP's own"),
    ] = None
    archives: Annotated[
        list[str] | None,
        _files("Archives unpacked on each executor, as env.tar.gz#env: a Python environment"),
    ] = None
    files: Annotated[list[str] | None, _files("Files for each executor")] = None
    packages: Annotated[
        list[str] | None, _files("Jars by their Maven coordinates, group:artifact:version")
    ] = None
    jars: Annotated[list[str] | None, _files("Jars for driver and executors")] = None
    verbose: Annotated[
        bool | None,
        _option(None, "Print errors of Spark's with the traces of Java and Python.", "--verbose"),
    ] = None
    conf: Annotated[
        list[str] | None, _option("K=V", "A setting of Spark's, as spark.cores.max=4; repeatable.")
    ] = None

    def given(self) -> dict[str, Any]:
        """The options that were given, by field."""
        return {
            name: value for name, value in attrs.asdict(self).items() if value not in (None, [])
        }

    def by_option(self) -> dict[str, Any]:
        """The options that were given, as they are written."""
        return {f"--{name.replace('_', '-')}": value for name, value in self.given().items()}

    def options(self) -> dict[str, Any]:
        """The options that were given, as ``SparkOptions`` takes them.

        Raises:
            ConfigError: a ``--conf`` that is not ``key=value``, or one of another option.
        """
        found = self.given()
        for name in ("py_files", "archives", "files", "packages", "jars"):
            texts = found.pop(name, [])
            if many := [one.strip() for text in texts for one in text.split(",") if one.strip()]:
                found[name] = tuple(many)
        if conf := key_values(found.pop("conf", []), "--conf"):
            found["conf"] = conf
            if both := sorted(_OPTION_OF.keys() & conf.keys()):
                raise ConfigError([f"--conf {key}: give it as {_OPTION_OF[key]}" for key in both])
        return found
