"""Says in a query's checkpoint what it is of, so that it does not go on as something else.

Tasks find their state by groups that follow from the topology and the partition counts. If either
changes, a task would find nothing, or keys would be looked for in another task, and counting would
begin anew without a word.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from streamlet.errors import StateError
from streamlet.spark.plan import Plan
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = "streamlet.json"


def described(topology: Topology, laid_out: Plan) -> dict[str, Any]:
    """What must stay as it is while a checkpoint lives."""
    return {
        "application": topology.application,
        "subtopologies": {str(part.id): part.hash.hex() for part in topology.subtopologies},
        "partitions": dict(sorted(laid_out.counts.items())),
    }


def check(spark: SparkSession, checkpoint: str, topology: Topology, laid_out: Plan) -> None:
    """Compare with what the checkpoint is of; say it if it is new.

    Raises:
        StateError: it is of another application, another version of the topology, or topics with
            other partition counts; the message says which.
    """
    now = described(topology, laid_out)
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint, _FILE)
    session: Any = spark._jsparkSession
    files = path.getFileSystem(session.sessionState().newHadoopConf())
    if files.exists(path):
        stream = files.open(path)
        try:
            text = bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
        compare(json.loads(text), now, checkpoint)
        return
    stream = files.create(path)
    try:
        stream.write(json.dumps(now, indent=1).encode())
    finally:
        stream.close()


def compare(was: dict[str, Any], now: dict[str, Any], checkpoint: str) -> None:
    """Refuse what has changed.

    Raises:
        StateError: naming it.
    """
    changes = []
    if was["application"] != now["application"]:
        changes.append(f"it is of {was['application']}, not of {now['application']}")
    for what in ("subtopologies", "partitions"):
        for name in sorted(was[what].keys() | now[what].keys()):
            before, after = was[what].get(name), now[what].get(name)
            if before != after and what == "partitions":
                changes.append(f"{name} had {before or 'no'} partitions and has {after or 'none'}")
            elif before != after:
                changes.append(f"subtopology {name} has changed")
    if changes:
        raise StateError(
            f"checkpoint {checkpoint}: {'; '.join(changes)}. Its state does not fit: take a new "
            "checkpoint, or go back"
        )
