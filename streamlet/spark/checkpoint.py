"""Says in a query's checkpoint what it is of, so that it does not go on as something else.

Tasks find their state by groups that follow from the topology and the partition counts. If either
changes, a task would find nothing, or keys would be looked for in another task, and counting would
start again without a message. Nor can a task go on with what Spark SQL aggregated, or the other
way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Required, TypedDict

import msgspec

from streamlet.bounded import parsed
from streamlet.errors import StateError
from streamlet.spark.hadoop_file import HadoopFile
from streamlet.spark.kafka import identity
from streamlet.spark.plan.plan import SparkPlan
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamlet.spark.plan.prepare import Aggregations

_FILE = "streamlet.json"

#: The form in which tasks keep their state; 3: the head lies among the segments, and runs of these
#: have trees.
_FORM = 3


class _Facts(TypedDict, total=False):
    form: int
    application: Required[str]
    subtopologies: Required[dict[str, str]]
    partitions: Required[dict[str, int]]
    aggregations: dict[str, str]
    topic_ids: dict[str, str]


def described(
    topology: Topology,
    laid_out: SparkPlan,
    aggregations: Mapping[str, str] | None = None,
    topic_ids: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The facts that must stay while a checkpoint lives, and how earlier versions noted them.

    Args:
        topology: of the application.
        laid_out: its plan.
        aggregations: of Spark SQL.
        topic_ids: of the topics that are read.
    """
    return {
        "form": _FORM,
        "application": topology.application,
        "subtopologies": {str(part.id): part.hash.hex() for part in topology.subtopologies},
        "former": {str(part.id): part.former_hash.hex() for part in topology.subtopologies},
        "partitions": dict(sorted(laid_out.counts.items())),
        "aggregations": dict(aggregations or {}),
        "topic_ids": dict(topic_ids or {}),
    }


def begun(spark: SparkSession, checkpoint: str) -> Aggregations | None:
    """The engine of the aggregations in a checkpoint; None if it does not say.

    Raises:
        StateError: its file is damaged.
    """
    was = _read(spark, checkpoint)
    if was is None:
        return None
    return "sql" if was.get("aggregations") else "tasks"


def check(spark: SparkSession, checkpoint: str, now: dict[str, Any], reason: str = "") -> None:
    """Compare the query with the checkpoint's facts, or write these if it is new.

    Args:
        spark: its session.
        checkpoint: folder or URL.
        now: as ``described``.
        reason: why the tasks do the aggregations now.

    Raises:
        StateError: it is of another application, another version of the topology, topics with
            other partition counts, or aggregations that others did; the message says which. Or its
            file is damaged.
        PositionsMismatchError: a topic was made again.
    """
    was = _read(spark, checkpoint)
    if was is not None:
        compare(was, now, checkpoint, reason)
        identity.check_ids(was.get("topic_ids", {}), now["topic_ids"], checkpoint)
        if "topic_ids" in was and was["subtopologies"] == now["subtopologies"]:
            return
    kept = {name: fact for name, fact in now.items() if name != "former"}
    text = json.dumps(kept, indent=1)
    facts_file(spark, checkpoint).write(text.encode())  # also over one of an older version


def facts_file(spark: SparkSession, checkpoint: str) -> HadoopFile:
    """The file of a checkpoint that says what it is of."""
    return HadoopFile.of(spark, checkpoint, _FILE)


def _read(spark: SparkSession, checkpoint: str) -> dict[str, Any] | None:
    raw = facts_file(spark, checkpoint).read()
    return None if raw is None else read(raw, checkpoint)


def read(raw: bytes, checkpoint: str) -> dict[str, Any]:
    """The facts in a checkpoint's file, as ``described`` or as an older version had them.

    Raises:
        StateError: it has none.
    """
    try:
        found: dict[str, Any] = parsed(raw)
        msgspec.convert(found, _Facts)
        return found
    except ValueError as error:
        raise StateError(
            f"checkpoint {checkpoint}: its file {_FILE} is damaged ({error}). Take a new checkpoint"
        ) from error


def compare(was: dict[str, Any], now: dict[str, Any], checkpoint: str, reason: str = "") -> None:
    """Refuse what has changed.

    Args:
        was: as ``described``; one of an older version may have no aggregations by Spark SQL.
        now: as ``described``.
        checkpoint: its name.
        reason: why the tasks do the aggregations now.

    Raises:
        StateError: naming it.
    """
    changes = []
    by_tasks = not (was.get("aggregations") or now["aggregations"])
    if by_tasks and was.get("form", 1) != now["form"]:
        changes.append("another version of streamlet wrote it")
    if was["application"] != now["application"]:
        changes.append(f"it is of {was['application']}, not of {now['application']}")
    for what in ("subtopologies", "partitions"):
        for name in sorted(was[what].keys() | now[what].keys()):
            before, after = was[what].get(name), now[what].get(name)
            if before != after and what == "partitions":
                changes.append(f"{name} had {before or 'no'} partitions and has {after or 'none'}")
            elif before not in (after, now["former"].get(name)):
                changes.append(f"subtopology {name} has changed")
    changes += _aggregations(was.get("aggregations", {}), now["aggregations"], reason)
    if changes:
        raise StateError(
            f"checkpoint {checkpoint}: {'; '.join(changes)}. Its state does not fit: take a new "
            "checkpoint, or go back"
        )


def _aggregations(was: dict[str, str], now: dict[str, str], reason: str) -> list[str]:
    if was and not now:
        return [f"Spark SQL did its aggregations, and now the tasks would ({reason})"]
    if now and not was:
        return ["the tasks did its aggregations, and now Spark SQL would"]
    return [
        f"{name} was {was.get(name)!r} and is {now.get(name)!r}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]
